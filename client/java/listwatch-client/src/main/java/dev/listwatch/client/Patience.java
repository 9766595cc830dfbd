package dev.listwatch.client;

import java.time.Duration;

/**
 * How long the server may still keep its reader waiting. Only time in which the reader waits is spent:
 * who does not ask has not been left in silence.
 */
final class Patience {
  private long leftNanos;

  Patience(Duration limit) {
    renew(limit);
  }

  void renew(Duration limit) {
    leftNanos = saturatedNanos(limit);
  }

  void spend(long waitedNanos) {
    leftNanos -= Math.max(0, waitedNanos);
  }

  long leftNanos() {
    return leftNanos;
  }

  boolean isOver() {
    return leftNanos <= 0;
  }

  /** Half of what a long holds, so that it can be added to a time: 146 years. */
  static long saturatedNanos(Duration duration) {
    Duration longest = Duration.ofNanos(Long.MAX_VALUE / 2);
    return (duration.compareTo(longest) < 0 ? duration : longest).toNanos();
  }
}
