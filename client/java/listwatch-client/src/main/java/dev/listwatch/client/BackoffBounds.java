package dev.listwatch.client;

import java.time.Duration;

/**
 * Between which bounds the delays before new attempts are drawn.
 *
 * @param initial the longest first delay
 * @param factor by how much the longest delay grows from one failure to the next; at least 1
 * @param max the longest delay of all
 */
public record BackoffBounds(Duration initial, double factor, Duration max) {
  /** 800 ms, doubled up to 30 s: the numbers of Kubernetes' reflectors. */
  public static final BackoffBounds DEFAULT =
      new BackoffBounds(Duration.ofMillis(800), 2, Duration.ofSeconds(30));

  /**
   * Bounds of one's own.
   *
   * @param initial the longest first delay; not negative
   * @param factor at least 1
   * @param max the longest delay of all; not negative
   */
  public BackoffBounds {
    if (initial.isNegative() || max.isNegative() || !(factor >= 1)) {
      throw new IllegalArgumentException(
          "no bounds of a backoff: " + initial + ", " + factor + ", " + max);
    }
  }
}
