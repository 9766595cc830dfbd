package dev.listwatch.client;

import java.util.Objects;

/**
 * The server's opaque name for a point in the history of one selector. Keep {@link #text()} to go on
 * from there after a restart of the program.
 *
 * @param text as the server gave it
 */
public record ResumeToken(String text) {
  /**
   * A token that was kept as text.
   *
   * @param text as the server gave it
   */
  public ResumeToken {
    Objects.requireNonNull(text);
  }

  boolean isEmpty() {
    return text.isEmpty();
  }
}
