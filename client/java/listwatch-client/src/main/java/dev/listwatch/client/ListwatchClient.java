package dev.listwatch.client;

import dev.listwatch.v1.AdminServiceGrpc;
import dev.listwatch.v1.BatchRequest;
import dev.listwatch.v1.BatchResponse;
import dev.listwatch.v1.CompactRequest;
import dev.listwatch.v1.CreateRequest;
import dev.listwatch.v1.DeleteRequest;
import dev.listwatch.v1.GetRequest;
import dev.listwatch.v1.GetResponse;
import dev.listwatch.v1.GetStatusRequest;
import dev.listwatch.v1.GetStatusResponse;
import dev.listwatch.v1.Key;
import dev.listwatch.v1.ListRequest;
import dev.listwatch.v1.ListWatchServiceGrpc;
import dev.listwatch.v1.Resource;
import dev.listwatch.v1.Selector;
import dev.listwatch.v1.UpdateRequest;
import io.grpc.Channel;
import io.grpc.ManagedChannelBuilder;
import java.time.Duration;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.Flow;
import java.util.function.Function;

/**
 * A client of one Listwatch server. Safe for use by many threads; one per program is enough.
 *
 * <p>Every call waits for its answer, at most for the request timeout (30 s unless said otherwise), and
 * within it tries up to four times while the server is unavailable or says when to come back. Writes carry a
 * {@code request_id}, the caller's or a random one, so that no attempt is a second write. A call that fails
 * throws a {@link ListwatchException}; one whose thread is interrupted an {@link
 * InterruptedCallException}.
 */
public final class ListwatchClient implements AutoCloseable {
  private static final Duration DEFAULT_REQUEST_TIMEOUT = Duration.ofSeconds(30);

  private final Connection connection;
  private final UnaryCalls calls;

  private ListwatchClient(Connection connection, Duration requestTimeout) {
    this.connection = connection;
    this.calls = new UnaryCalls(connection, requestTimeout);
  }

  /**
   * A client of the server at an address, without TLS. The connection is made when it is needed.
   *
   * @param address as {@code host:port}
   * @return a client, to be closed
   */
  public static ListwatchClient connect(String address) {
    return builder().address(address).build();
  }

  /**
   * For what {@link #connect} does not offer.
   *
   * @return a builder
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * The same client with another deadline. It shares the connection, and closing either closes both.
   *
   * @param timeout for all attempts of a call together; more than zero
   * @return a client
   */
  public ListwatchClient withRequestTimeout(Duration timeout) {
    return new ListwatchClient(connection, positive(timeout));
  }

  /**
   * Reads one object.
   *
   * @param key its name
   * @return the whole object
   * @throws NotFoundException if there is none
   */
  public Resource get(Key key) {
    return get(GetRequest.newBuilder().setKey(key).build()).getResource();
  }

  /**
   * Reads one object.
   *
   * @param request says what of it, and how new it must be
   * @return the object and the revision at which it was read
   * @throws NotFoundException if there is none
   */
  public GetResponse get(GetRequest request) {
    return calls.call(ListWatchServiceGrpc.getGetMethod(), request);
  }

  /**
   * Lists what a selector matches.
   *
   * @param selector what
   * @return page after page of one snapshot
   */
  public Listing list(Selector selector) {
    return list(ListRequest.newBuilder().setSelector(selector).build());
  }

  /**
   * Lists what a selector matches.
   *
   * @param request says what of it, how new it must be, and how many objects a page may have
   * @return page after page of one snapshot, beginning with the page that the request names
   * @throws ExpiredException if a revision was asked for that is compacted
   */
  public Listing list(ListRequest request) {
    return new Listing(
        page -> calls.call(ListWatchServiceGrpc.getListMethod(), page), request);
  }

  /**
   * Writes a new object.
   *
   * @param resource its key, labels and value
   * @return as stored, without {@code value}
   * @throws AlreadyExistsException if the key is taken
   */
  public Resource create(Resource resource) {
    return create(CreateRequest.newBuilder().setResource(resource).build());
  }

  /**
   * Writes a new object.
   *
   * @param request the object, and perhaps how long it lives
   * @return as stored, without {@code value}
   * @throws AlreadyExistsException if the key is taken
   */
  public Resource create(CreateRequest request) {
    return calls
        .call(
            ListWatchServiceGrpc.getCreateMethod(),
            request.toBuilder().setRequestId(requestId(request.getRequestId())).build())
        .getResource();
  }

  /**
   * Replaces an object, whatever its revision.
   *
   * @param resource its key, and the labels and the value that it shall have
   * @return as stored, without {@code value}
   * @throws NotFoundException if there is none
   */
  public Resource update(Resource resource) {
    return update(UpdateRequest.newBuilder().setResource(resource).build());
  }

  /**
   * Replaces an object, or creates it, as the request says.
   *
   * @param request the object, and what must hold
   * @return as stored, without {@code value}
   * @throws NotFoundException if there is none, and it may not be created
   * @throws ConflictException if it is not at the revision that the request says
   */
  public Resource update(UpdateRequest request) {
    return calls
        .call(
            ListWatchServiceGrpc.getUpdateMethod(),
            request.toBuilder().setRequestId(requestId(request.getRequestId())).build())
        .getResource();
  }

  /**
   * Deletes an object, whatever its revision.
   *
   * @param key its name
   * @return what was deleted, with the revision of the deletion
   * @throws NotFoundException if there is none
   */
  public Resource delete(Key key) {
    return delete(DeleteRequest.newBuilder().setKey(key).build());
  }

  /**
   * Deletes an object.
   *
   * @param request its key, and what must hold
   * @return what was deleted, with the revision of the deletion
   * @throws NotFoundException if there is none, and the request does not allow that
   * @throws ConflictException if it is not the version or the object that the request says
   */
  public Resource delete(DeleteRequest request) {
    return calls
        .call(
            ListWatchServiceGrpc.getDeleteMethod(),
            request.toBuilder().setRequestId(requestId(request.getRequestId())).build())
        .getResource();
  }

  /**
   * Applies several writes at one revision, all or none.
   *
   * @param request the writes
   * @return their revision, and the objects in the order of the writes, without {@code value}
   * @throws ListwatchException as the write that fails would throw it
   */
  public BatchResponse batch(BatchRequest request) {
    return calls.call(
        ListWatchServiceGrpc.getBatchMethod(),
        request.toBuilder().setRequestId(requestId(request.getRequestId())).build());
  }

  /**
   * Drops history.
   *
   * @param revision what comes before it is dropped; the state at it stays readable
   * @return the revision before which history is gone now
   */
  public long compact(long revision) {
    return calls
        .call(
            AdminServiceGrpc.getCompactMethod(),
            CompactRequest.newBuilder().setRevision(revision).build())
        .getCompactRevision();
  }

  /**
   * How the server is doing.
   *
   * @return revisions, sizes, limits and watch counts
   */
  public GetStatusResponse status() {
    return calls.call(AdminServiceGrpc.getGetStatusMethod(), GetStatusRequest.getDefaultInstance());
  }

  /**
   * Watches from the initial state on.
   *
   * @param selector what
   * @return a watcher, to be closed; the stream is opened when it is asked for an event
   */
  public Watcher watch(Selector selector) {
    return watch(selector, WatchOptions.DEFAULT);
  }

  /**
   * Watches.
   *
   * @param selector what
   * @param options from where, and how
   * @return a watcher, to be closed; the stream is opened when it is asked for an event
   */
  public Watcher watch(Selector selector, WatchOptions options) {
    return new Watcher(connection, selector, Objects.requireNonNull(options));
  }

  /**
   * Watches for a reactive consumer. Each subscriber gets a watch of its own, with a daemon thread of its
   * own; what it does not request is not read from the server. A subscription ends with {@code onError} when
   * the watcher does, and with {@code onComplete} when this client is closed.
   *
   * @param selector what
   * @param options from where, and how
   * @return a publisher that can be subscribed to any number of times
   */
  public Flow.Publisher<Event> publisher(Selector selector, WatchOptions options) {
    return subscriber ->
        WatchSubscription.start(connection, watch(selector, options), subscriber);
  }

  /**
   * Keeps a copy of what a selector matches.
   *
   * @param selector what
   * @param decoder makes an object of what the server stores; called by the reflector's own thread
   * @param <T> what objects are decoded to
   * @return a reflector that has begun, to be closed
   */
  public <T> Reflector<T> reflect(Selector selector, Function<Resource, T> decoder) {
    return reflect(selector, WatchOptions.DEFAULT, decoder);
  }

  /**
   * Keeps a copy of what a selector matches. Where the options say to start, and what to do about expired
   * history, is left aside: a reflector begins with the initial state, and starts over.
   *
   * @param selector what
   * @param options how to watch
   * @param decoder makes an object of what the server stores; called by the reflector's own thread
   * @param <T> what objects are decoded to
   * @return a reflector that has begun, to be closed
   */
  public <T> Reflector<T> reflect(
      Selector selector, WatchOptions options, Function<Resource, T> decoder) {
    Watcher watcher =
        watch(
            selector,
            options
                .withStart(new Start.InitialState())
                .withOnExpired(WatchOptions.OnExpired.START_OVER));
    return Reflector.start(connection, watcher, selector, Objects.requireNonNull(decoder));
  }

  /** Closes every watcher and reflector of this client, and the connection unless it was given. */
  @Override
  public void close() {
    connection.close();
  }

  /** The caller's own, for a write that was begun before this call. */
  private static String requestId(String given) {
    return given.isEmpty() ? UUID.randomUUID().toString() : given;
  }

  private static Duration positive(Duration timeout) {
    if (timeout.isNegative() || timeout.isZero()) {
      throw new IllegalArgumentException("no time at all: " + timeout);
    }
    return timeout;
  }

  /** Sets up a {@link ListwatchClient}. */
  public static final class Builder {
    private String address = "localhost:7450";
    private Channel channel;
    private Duration requestTimeout = DEFAULT_REQUEST_TIMEOUT;

    private Builder() {}

    /**
     * Where the server is, reached without TLS. Default: {@code localhost:7450}.
     *
     * @param address as {@code host:port}
     * @return this
     */
    public Builder address(String address) {
      this.address = Objects.requireNonNull(address);
      return this;
    }

    /**
     * A channel to use in place of an address, as for TLS and credentials. It stays the caller's: closing
     * the client does not close it.
     *
     * @param channel to the server, or through interceptors
     * @return this
     */
    public Builder channel(Channel channel) {
      this.channel = Objects.requireNonNull(channel);
      return this;
    }

    /**
     * How long a call may take, all its attempts together. Default: 30 s.
     *
     * @param timeout more than zero
     * @return this
     */
    public Builder requestTimeout(Duration timeout) {
      requestTimeout = positive(timeout);
      return this;
    }

    /**
     * The client. No connection is made yet.
     *
     * @return a client, to be closed
     */
    public ListwatchClient build() {
      if (channel != null) {
        return new ListwatchClient(new Connection(channel, false), requestTimeout);
      }
      Channel own =
          ManagedChannelBuilder.forTarget("dns:///" + address)
              .usePlaintext()
              // Retries are this client's: two layers of them would multiply.
              .disableRetry()
              .userAgent("listwatch-java")
              .build();
      return new ListwatchClient(new Connection(own, true), requestTimeout);
    }
  }
}
