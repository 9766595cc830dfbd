package dev.listwatch.client;

import java.io.Serial;

/**
 * The key is taken ({@code ALREADY_EXISTS}). A retry does not help: update, or choose another.
 */
public final class AlreadyExistsException extends ListwatchException {
  @Serial private static final long serialVersionUID = 1;

  AlreadyExistsException(Failure failure, Throwable cause) {
    super(failure, cause);
  }
}
