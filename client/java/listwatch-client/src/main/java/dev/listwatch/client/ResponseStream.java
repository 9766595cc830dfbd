package dev.listwatch.client;

import dev.listwatch.v1.ListWatchServiceGrpc;
import dev.listwatch.v1.WatchRequest;
import dev.listwatch.v1.WatchResponse;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/**
 * One call of Watch. It holds at most one response: the next is asked for when that has been taken, so that
 * the transport's flow control reaches the server. All methods are called under the lock.
 */
final class ResponseStream extends ClientCall.Listener<WatchResponse> {
  private final Lock lock;
  private final Condition changed;
  private final ClientCall<WatchRequest, WatchResponse> call;
  private WatchResponse response;
  private boolean asked;
  private Status end;
  private Metadata trailers;
  private long firstResponseAt;
  private boolean responded;
  private long endedAt;

  private ResponseStream(
      ClientCall<WatchRequest, WatchResponse> call, Lock lock, Condition changed) {
    this.call = call;
    this.lock = lock;
    this.changed = changed;
  }

  /**
   * @param changed signalled when a response has come, or the end
   */
  static ResponseStream open(
      Connection connection, WatchRequest request, Lock lock, Condition changed) {
    var call = connection.newCall(ListWatchServiceGrpc.getWatchMethod());
    ResponseStream stream = new ResponseStream(call, lock, changed);
    call.start(stream, new Metadata());
    call.sendMessage(request);
    call.halfClose();
    return stream;
  }

  /** Lets the server send one more response, unless one is on its way. */
  void ask() {
    if (!asked && response == null && end == null) {
      asked = true;
      call.request(1);
    }
  }

  boolean hasNews() {
    return response != null || end != null;
  }

  /** The response that has come, once. */
  Optional<WatchResponse> takeResponse() {
    Optional<WatchResponse> taken = Optional.ofNullable(response);
    response = null;
    return taken;
  }

  /** How the server, or the transport, ended it; empty while it is open. */
  Optional<Disconnect> end() {
    if (end == null) {
      return Optional.empty();
    }
    return Optional.of(
        end.isOk()
            ? Disconnect.by(Disconnect.Cause.ENDED)
            : Disconnect.by(ListwatchException.of(end, trailers)));
  }

  /** From the first response to the end, or to now; empty if there was no response. */
  OptionalLong livedNanos() {
    if (!responded) {
      return OptionalLong.empty();
    }
    return OptionalLong.of((end == null ? System.nanoTime() : endedAt) - firstResponseAt);
  }

  void cancel() {
    call.cancel("not read any more", null);
  }

  @Override
  public void onMessage(WatchResponse message) {
    lock.lock();
    try {
      if (!responded) {
        responded = true;
        firstResponseAt = System.nanoTime();
      }
      asked = false;
      response = message;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  @Override
  public void onClose(Status status, Metadata withIt) {
    lock.lock();
    try {
      end = status;
      trailers = withIt;
      endedAt = System.nanoTime();
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }
}
