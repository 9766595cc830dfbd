package dev.listwatch.client;

import java.io.Serial;

/**
 * The object does not exist ({@code NOT_FOUND}). A retry does not help.
 */
public final class NotFoundException extends ListwatchException {
  @Serial private static final long serialVersionUID = 1;

  NotFoundException(Failure failure, Throwable cause) {
    super(failure, cause);
  }
}
