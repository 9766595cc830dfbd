package dev.listwatch.client;

import java.util.Objects;
import java.util.Optional;

/**
 * Why a stream was lost.
 *
 * @param cause what kind of reason it is
 * @param error what the server or the transport said; present if the cause is {@link Cause#ERROR}
 */
public record Disconnect(Cause cause, Optional<ListwatchException> error) {
  /** The kinds of reasons. */
  public enum Cause {
    /** The server ended the stream with OK. */
    ENDED,
    /** The server said that it is going away. */
    GOING_AWAY,
    /**
     * Nothing came for two and a half bookmark intervals: the connection is dead, whatever the
     * operating system says.
     */
    SILENT,
    /** The first response did not come in time. */
    NO_RESPONSE,
    /** The initial state, or what catches up, made no progress and did not end. */
    NO_PROGRESS,
    /** {@link Watcher#restart()} was called. */
    RESTARTED,
    /** An error that goes away by itself, or with a new initial state. */
    ERROR
  }

  /**
   * Why a stream was lost.
   *
   * @param cause what kind of reason it is
   * @param error present if and only if the cause is {@link Cause#ERROR}
   */
  public Disconnect {
    Objects.requireNonNull(cause);
    if (error.isPresent() != (cause == Cause.ERROR)) {
      throw new IllegalArgumentException(cause + " with " + error);
    }
  }

  static Disconnect by(Cause cause) {
    return new Disconnect(cause, Optional.empty());
  }

  static Disconnect by(ListwatchException error) {
    return new Disconnect(Cause.ERROR, Optional.of(error));
  }
}
