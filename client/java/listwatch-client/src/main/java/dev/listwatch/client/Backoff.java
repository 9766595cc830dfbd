package dev.listwatch.client;

import java.time.Duration;
import java.util.function.DoubleSupplier;

/**
 * How long to wait before the next attempt: full jitter, since clients that failed together must not come
 * back together. Not safe for use by several threads.
 */
final class Backoff {
  private final BackoffBounds bounds;
  private final DoubleSupplier randomness;
  private Duration bound;

  /**
   * @param randomness gives numbers from 0 to 1
   */
  Backoff(BackoffBounds bounds, DoubleSupplier randomness) {
    this.bounds = bounds;
    this.randomness = randomness;
    reset();
  }

  /** The delay after one more failure. */
  Duration nextDelay() {
    Duration delay = jittered(bound);
    bound = shorter(scaled(bound, bounds.factor()), bounds.max());
    return delay;
  }

  /** Something between nothing and {@code limit}, without counting a failure. */
  Duration jittered(Duration limit) {
    return scaled(limit, Math.max(0, Math.min(1, randomness.getAsDouble())));
  }

  /** Back to the first delay. */
  void reset() {
    bound = shorter(bounds.initial(), bounds.max());
  }

  /** Saturates where nanoseconds do not fit into a long, after 292 years. */
  private static Duration scaled(Duration duration, double factor) {
    double nanos = (duration.getSeconds() * 1e9 + duration.getNano()) * factor;
    return Duration.ofNanos(Math.round(nanos));
  }

  private static Duration shorter(Duration one, Duration other) {
    return one.compareTo(other) <= 0 ? one : other;
  }
}
