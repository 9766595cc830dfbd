package dev.listwatch.client;

/** What an error means for a watcher. */
enum Verdict {
  /** Go on from the same position, after backoff or after what the server says. */
  RESUME,
  /**
   * The position is ahead of the server: it may be a replica that is behind, so try the same position
   * again, but not for ever: it may be another history.
   */
  AHEAD,
  /** The position is worth nothing any more. */
  START_OVER,
  /** As {@link #START_OVER}, and no position is known to be better. */
  DATA_LOSS,
  /**
   * As {@link #START_OVER}, but for no reason that Listwatch knows: another start may meet the same.
   */
  UNEXPLAINED,
  /** The token is not one of this server and selector. */
  BAD_TOKEN,
  /** No retry helps. */
  REFUSED;

  static Verdict of(ListwatchException error) {
    return switch (error.code()) {
      case OUT_OF_RANGE ->
          switch (error.reason()) {
            case "REVISION_COMPACTED", "STORE_CHANGED" -> START_OVER;
            case "REVISION_IN_FUTURE" -> AHEAD;
            default -> UNEXPLAINED;
          };
      case DATA_LOSS -> DATA_LOSS;
      case RESOURCE_EXHAUSTED -> error.retryAfter().isPresent() ? RESUME : REFUSED;
      case INVALID_ARGUMENT -> error.reason().equals("TOKEN_INVALID") ? BAD_TOKEN : REFUSED;
      case FAILED_PRECONDITION,
              UNAUTHENTICATED,
              PERMISSION_DENIED,
              NOT_FOUND,
              ALREADY_EXISTS,
              UNIMPLEMENTED ->
          REFUSED;
      case OK, UNAVAILABLE, INTERNAL, UNKNOWN, CANCELLED, ABORTED, DEADLINE_EXCEEDED -> RESUME;
    };
  }
}
