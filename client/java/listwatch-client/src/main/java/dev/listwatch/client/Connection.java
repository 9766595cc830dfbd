package dev.listwatch.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** The channel, and what is open on it. */
final class Connection implements AutoCloseable {
  /** A response of a large batch, or a page of large objects, is far above gRPC's usual 4 MiB. */
  static final int MAX_MESSAGE_BYTES = 64 << 20;

  static final CallOptions CALL_OPTIONS =
      CallOptions.DEFAULT.withMaxInboundMessageSize(MAX_MESSAGE_BYTES);

  private final Channel channel;
  private final boolean closesChannel;
  private final Set<AutoCloseable> open = ConcurrentHashMap.newKeySet();

  private volatile boolean closed;

  Connection(Channel channel, boolean closesChannel) {
    this.channel = channel;
    this.closesChannel = closesChannel;
  }

  Channel channel() {
    return channel;
  }

  <Q, R> ClientCall<Q, R> newCall(MethodDescriptor<Q, R> method) {
    return channel.newCall(method, CALL_OPTIONS);
  }

  /**
   * To be called after a failure, when it is decided that there is another attempt. The channel has a
   * backoff of its own, of up to two minutes, during which calls fail at once: what waits here has waited
   * enough.
   */
  void retriesSoon() {
    if (channel instanceof ManagedChannel managed) {
      managed.resetConnectBackoff();
    }
  }

  /**
   * Closes {@code watch} with this, unless it is disowned before.
   *
   * @throws IllegalStateException if this is closed
   */
  void owns(AutoCloseable watch) {
    open.add(watch);
    // After it was added: either this sees that it is closed, or close() sees the watch.
    if (closed) {
      open.remove(watch);
      throw new IllegalStateException("the client is closed");
    }
  }

  void disowns(AutoCloseable watch) {
    open.remove(watch);
  }

  @Override
  public void close() {
    closed = true;
    for (AutoCloseable watch : List.copyOf(open)) {
      try {
        watch.close();
      } catch (Exception impossible) {
        throw new AssertionError("watchers and reflectors close without exceptions", impossible);
      }
    }
    if (closesChannel && channel instanceof ManagedChannel managed) {
      managed.shutdownNow();
    }
  }
}
