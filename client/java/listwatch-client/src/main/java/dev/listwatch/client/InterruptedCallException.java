package dev.listwatch.client;

import io.grpc.Status;
import java.io.Serial;
import java.util.HashMap;

/**
 * The thread was interrupted while it waited for an answer or an event. Its interrupt flag is set again.
 * A write may have happened. A watcher misses nothing by it and can be asked again.
 */
public final class InterruptedCallException extends ListwatchException {
  @Serial private static final long serialVersionUID = 1;

  InterruptedCallException() {
    super(new Failure(Status.Code.CANCELLED, "interrupted", "", new HashMap<>(), null), null);
  }
}
