package dev.listwatch.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.io.Serial;
import java.time.DateTimeException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * What a call failed with. The subclasses are the cases that callers tell apart; everything else is told
 * by {@link #code()} and {@link #reason()}.
 */
public class ListwatchException extends RuntimeException {
  @Serial private static final long serialVersionUID = 1;

  /** Of errors that are Listwatch's own, and not a proxy's. */
  private static final String DOMAIN = "listwatch";

  private final Failure failure;

  ListwatchException(Failure failure, Throwable cause) {
    super(failure.code() + ": " + failure.message(), cause);
    this.failure = failure;
  }

  static ListwatchException of(StatusRuntimeException error) {
    return of(error.getStatus(), error.getTrailers());
  }

  /**
   * @param trailers what came with the status; may be null
   */
  static ListwatchException of(Status told, Metadata trailers) {
    Status status =
        isConnectionLost(told)
            ? Status.UNAVAILABLE
                .withDescription(told.getDescription())
                .withCause(told.getCause())
            : told;
    Failure failure = Failure.of(status, trailers == null ? new Metadata() : trailers);
    Throwable cause = status.getCause();
    return switch (status.getCode()) {
      case NOT_FOUND -> new NotFoundException(failure, cause);
      case ALREADY_EXISTS -> new AlreadyExistsException(failure, cause);
      case ABORTED -> new ConflictException(failure, cause);
      case OUT_OF_RANGE ->
          // A server that is behind: time may cure it, which is not so of what is gone.
          failure.reason().equals("REVISION_IN_FUTURE")
              ? new ListwatchException(failure, cause)
              : new ExpiredException(failure, cause);
      default -> new ListwatchException(failure, cause);
    };
  }

  /**
   * A call that meets the moment in which its connection goes is UNKNOWN to gRPC ("channel closed"). What a
   * server says has no cause here.
   */
  private static boolean isConnectionLost(Status status) {
    return status.getCode() == Status.Code.UNKNOWN && status.getCause() instanceof IOException;
  }

  /** The server's answer lacks what the API promises. */
  static ListwatchException protocolBreach(String what) {
    return of(Status.INTERNAL.withDescription("the server broke the protocol: " + what), null);
  }

  /** To be thrown by a thread whose interruption has been noticed; sets the interrupt flag again. */
  static InterruptedCallException interrupted() {
    Thread.currentThread().interrupt();
    return new InterruptedCallException();
  }

  final Failure failure() {
    return failure;
  }

  /**
   * The gRPC code.
   *
   * @return never {@code OK}
   */
  public final Status.Code code() {
    return failure.code();
  }

  /**
   * The machine-readable reason: the name of a {@code dev.listwatch.v1.ErrorReason} without its prefix,
   * such as {@code REVISION_MISMATCH}.
   *
   * @return empty where the error is not Listwatch's own (a proxy's, the transport's)
   */
  public final String reason() {
    return failure.reason();
  }

  /**
   * The server's words, without the code that {@link #getMessage()} begins with.
   *
   * @return perhaps empty
   */
  public final String serverMessage() {
    return failure.message();
  }

  /**
   * What comes with the reason; which keys there are says the comment on each {@code ErrorReason}.
   *
   * @return perhaps empty, not to be changed
   */
  public final Map<String, String> metadata() {
    return failure.metadata();
  }

  /**
   * A number of the metadata, such as {@code compact_revision}.
   *
   * @param key its name
   * @return empty if there is no such number
   */
  public final OptionalLong number(String key) {
    try {
      return OptionalLong.of(Long.parseLong(metadata().getOrDefault(key, "")));
    } catch (NumberFormatException notThere) {
      return OptionalLong.empty();
    }
  }

  /**
   * How long the server asks to wait before a retry.
   *
   * @return empty if it does not say
   */
  public final Optional<Duration> retryAfter() {
    return Optional.ofNullable(failure.retryAfter());
  }

  /**
   * Whether the same request may succeed later with nothing changed but time. A write only with the same
   * {@code request_id}; otherwise it may happen twice.
   *
   * @return false if the request itself, or what it met, has to change first
   */
  public final boolean isRetryable() {
    return switch (code()) {
      case UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED -> !(this instanceof InterruptedCallException);
      case RESOURCE_EXHAUSTED -> retryAfter().isPresent();
      case OUT_OF_RANGE -> reason().equals("REVISION_IN_FUTURE");
      default -> false;
    };
  }

  /**
   * What a failed call came with.
   *
   * @param retryAfter null if the server did not say
   */
  record Failure(
      Status.Code code,
      String message,
      String reason,
      HashMap<String, String> metadataCopy,
      Duration retryAfter)
      implements java.io.Serializable {
    static Failure of(Status status, Metadata trailers) {
      List<Any> details = StatusProto.fromStatusAndTrailers(status, trailers).getDetailsList();
      Optional<ErrorInfo> info =
          find(details, ErrorInfo.class).filter(found -> found.getDomain().equals(DOMAIN));
      return new Failure(
          status.getCode(),
          words(status),
          info.map(ErrorInfo::getReason).orElse(""),
          new HashMap<>(info.map(ErrorInfo::getMetadataMap).orElse(Map.of())),
          find(details, RetryInfo.class).flatMap(Failure::delay).orElse(null));
    }

    Map<String, String> metadata() {
      return Map.copyOf(metadataCopy);
    }

    private static <M extends Message> Optional<M> find(List<Any> details, Class<M> type) {
      try {
        for (Any detail : details) {
          if (detail.is(type)) {
            return Optional.of(detail.unpack(type));
          }
        }
      } catch (InvalidProtocolBufferException garbled) {
        // Details explain an error. Without them it is still the error that its code says.
      }
      return Optional.empty();
    }

    private static Optional<Duration> delay(RetryInfo retry) {
      if (!retry.hasRetryDelay()) {
        return Optional.empty();
      }
      try {
        var delay = retry.getRetryDelay();
        Duration duration = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
        return duration.isNegative() ? Optional.empty() : Optional.of(duration);
      } catch (ArithmeticException | DateTimeException outOfBounds) {
        return Optional.empty();
      }
    }

    /** gRPC says no more than "io exception" of most of what happens to a connection. */
    private static String words(Status status) {
      String description = Optional.ofNullable(status.getDescription()).orElse("");
      StringBuilder text = new StringBuilder(description);
      for (Throwable cause = status.getCause(); cause != null; cause = cause.getCause()) {
        String message = cause.getMessage();
        if (message != null && text.indexOf(message) < 0) {
          text.append(text.isEmpty() ? "" : ": ").append(message);
        }
      }
      return text.toString();
    }
  }
}
