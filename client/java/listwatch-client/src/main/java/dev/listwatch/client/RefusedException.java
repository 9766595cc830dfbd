package dev.listwatch.client;

import java.io.Serial;

/**
 * What ends a {@link Watcher} or a {@link Reflector}: the server refuses the watch as it stands
 * (credentials, arguments, limits), and a retry does not help. Code, reason and metadata are those of the
 * error, which is the {@linkplain #getCause() cause}.
 */
public final class RefusedException extends ListwatchException {
  @Serial private static final long serialVersionUID = 1;

  RefusedException(ListwatchException error) {
    super(error.failure(), error);
  }
}
