package dev.listwatch.client;

import java.io.Serial;

/**
 * The point in history is gone ({@code OUT_OF_RANGE}): compacted, or of another store, or the reason is
 * unknown. The same request fails again: list again. A {@link Watcher} throws it only with {@link
 * WatchOptions.OnExpired#FAIL}.
 */
public final class ExpiredException extends ListwatchException {
  @Serial private static final long serialVersionUID = 1;

  ExpiredException(Failure failure, Throwable cause) {
    super(failure, cause);
  }
}
