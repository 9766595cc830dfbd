package dev.listwatch.client;

import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** Calls with one answer: a deadline for all of it, and a few retries inside that deadline. */
final class UnaryCalls {
  /** First try included. What fails longer is the caller's decision. */
  private static final int MAX_ATTEMPTS = 4;

  private static final BackoffBounds BETWEEN_ATTEMPTS =
      new BackoffBounds(Duration.ofMillis(50), 2, Duration.ofSeconds(1));

  private final Connection connection;
  private final Duration timeout;

  UnaryCalls(Connection connection, Duration timeout) {
    this.connection = connection;
    this.timeout = timeout;
  }

  /**
   * Sends the request until there is an answer, an error that a retry does not cure, or the deadline. Right
   * for reads, and for writes with a {@code request_id}: the server gives the first answer again.
   */
  <Q, R> R call(MethodDescriptor<Q, R> method, Q request) {
    long deadline = System.nanoTime() + Patience.saturatedNanos(timeout);
    Backoff backoff = new Backoff(BETWEEN_ATTEMPTS, () -> ThreadLocalRandom.current().nextDouble());
    for (int attempt = 1; ; attempt++) {
      ListwatchException error;
      try {
        var options =
            Connection.CALL_OPTIONS.withDeadlineAfter(
                deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
        return ClientCalls.blockingUnaryCall(connection.channel(), method, options, request);
      } catch (StatusRuntimeException failed) {
        if (failed.getStatus().getCode() == Status.Code.CANCELLED
            && Thread.currentThread().isInterrupted()) {
          throw ListwatchException.interrupted();
        }
        error = ListwatchException.of(failed);
      }
      Duration delay = error.retryAfter().orElseGet(backoff::nextDelay);
      long delayNanos = Patience.saturatedNanos(delay);
      // Better the server's own words than a timeout that is already certain.
      boolean late = System.nanoTime() + delayNanos - deadline >= 0;
      if (!isCuredByRetry(error) || attempt == MAX_ATTEMPTS || late) {
        throw error;
      }
      pause(delayNanos);
      connection.retriesSoon();
    }
  }

  private static boolean isCuredByRetry(ListwatchException error) {
    return switch (error.code()) {
      case UNAVAILABLE -> true;
      case RESOURCE_EXHAUSTED -> error.retryAfter().isPresent();
      default -> false;
    };
  }

  private static void pause(long nanos) {
    try {
      TimeUnit.NANOSECONDS.sleep(nanos);
    } catch (InterruptedException interrupted) {
      throw ListwatchException.interrupted();
    }
  }
}
