package dev.listwatch.client;

/** Where a stream is. */
enum Phase {
  /** The initial state was asked for, and the first response is outstanding. */
  OPENED_FOR_STATE,
  /** A stream that resumes: its first response says which of the others follows. */
  OPENED,
  /** Between INITIAL_STATE_BEGIN and INITIAL_STATE_END. */
  INITIAL,
  /** Between NET_BEGIN and INITIAL_STATE_END. */
  NET,
  /** Between MANIFEST_BEGIN and INITIAL_STATE_END. */
  MANIFEST,
  /** Every change as it comes. */
  LIVE;

  boolean isBeforeTheFirstResponse() {
    return this == OPENED_FOR_STATE || this == OPENED;
  }

  /** Whether the stream owes an end of what it has begun. */
  boolean isSyncing() {
    return this == INITIAL || this == NET || this == MANIFEST;
  }
}
