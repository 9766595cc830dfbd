package dev.listwatch.client;

/** Keeps a {@link ReflectorListener} told. Ends with the reflector, or when it is closed. */
public interface Subscription extends AutoCloseable {
  /** Ends it; a call of the listener that has begun is not waited for. */
  @Override
  void close();
}
