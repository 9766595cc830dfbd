package dev.listwatch.client;

import java.io.Serial;

/**
 * The object is not in the state that the write expects ({@code ABORTED}; the reason is {@code
 * REVISION_MISMATCH} or {@code UID_MISMATCH}). Read, decide again, write again.
 */
public final class ConflictException extends ListwatchException {
  @Serial private static final long serialVersionUID = 1;

  ConflictException(Failure failure, Throwable cause) {
    super(failure, cause);
  }
}
