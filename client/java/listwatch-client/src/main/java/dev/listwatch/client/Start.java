package dev.listwatch.client;

import java.util.Objects;

/** Where a watch begins. */
public sealed interface Start {
  /** With everything that exists. */
  record InitialState() implements Start {}

  /**
   * After the point that a bookmark or a list of the same selector named.
   *
   * @param token that point's
   */
  record After(ResumeToken token) implements Start {
    /**
     * After a point.
     *
     * @param token that point's
     */
    public After {
      Objects.requireNonNull(token);
    }
  }

  /**
   * After a revision.
   *
   * @param revision of the store; 0 is refused by the server
   */
  record AfterRevision(long revision) implements Start {}

  /** With the first change after the server takes the request. */
  record Now() implements Start {}
}
