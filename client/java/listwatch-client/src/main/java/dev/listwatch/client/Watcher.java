package dev.listwatch.client;

import dev.listwatch.v1.Selector;
import dev.listwatch.v1.WatchResponse;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A watch that goes on by itself: it reconnects, resumes, starts over, and tells so. It ends only with
 * {@link #close()}, or with a {@link RefusedException} or an {@link ExpiredException}.
 *
 * <p>A watcher has no thread. It works while it is asked, so who asks late holds the server back instead of
 * filling a queue: no more than one response is kept. One thread may ask; any may close.
 *
 * <p>The iterator throws {@link InterruptedCallException} when its thread is interrupted; nothing is missed
 * by it, and it can be asked again.
 */
public final class Watcher implements Iterable<Event>, AutoCloseable {
  private static final System.Logger LOG = System.getLogger(Watcher.class.getName());

  private sealed interface State {
    /** No stream, and no reason to wait. Entered at first and after {@link Waiting}. */
    record Disconnected() implements State {}

    /** Responses come, or are awaited. Left by any {@link Disconnect}. */
    record Streaming(
        ResponseStream stream, Translation translation, Patience silence, Patience progress)
        implements State {}

    /** The next attempt has its time, of {@link System#nanoTime()}. Left when it comes. */
    record Waiting(long untilNanos) implements State {}

    /** An error was given out that no retry cures. Never left. */
    record Ended(ListwatchException error) implements State {}

    /** Never left. */
    record Closed() implements State {}
  }

  private final Connection connection;
  private final WatchOptions options;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final Position position;
  private final Recovery recovery;

  /** Of the last response, what has not been given out. */
  private final Queue<Event> ready = new ArrayDeque<>();

  private State state = new State.Disconnected();

  Watcher(Connection connection, Selector selector, WatchOptions options) {
    this.connection = connection;
    this.options = options;
    this.position = new Position(selector, options);
    this.recovery = new Recovery(position, options);
    connection.owns(this);
  }

  /**
   * The next event, waited for as long as it takes.
   *
   * @return empty if the watcher is, or is being, closed
   * @throws RefusedException if the server refuses the watch; again with each further call
   * @throws ExpiredException if history is gone and {@link WatchOptions.OnExpired#FAIL} was asked for;
   *     again with each further call
   * @throws InterruptedException if the thread is interrupted; nothing is missed by it
   */
  public Optional<Event> next() throws InterruptedException {
    return next(Long.MAX_VALUE);
  }

  /**
   * The next event, if there is one in time.
   *
   * @param timeout how long to wait for it; none if zero or negative
   * @return empty if there is none yet, or the watcher is closed
   * @throws RefusedException as of {@link #next()}
   * @throws ExpiredException as of {@link #next()}
   * @throws InterruptedException if the thread is interrupted; nothing is missed by it
   */
  public Optional<Event> poll(Duration timeout) throws InterruptedException {
    return next(Patience.saturatedNanos(timeout));
  }

  /**
   * The events as they come. There is one sequence of them, of which all iterators take.
   *
   * @return an iterator that waits for each event, and has no more when the watcher is closed
   */
  @Override
  public Iterator<Event> iterator() {
    return new Iterator<>() {
      private Optional<Event> next = Optional.empty();

      @Override
      public boolean hasNext() {
        if (next.isEmpty()) {
          try {
            next = Watcher.this.next();
          } catch (InterruptedException interrupted) {
            throw ListwatchException.interrupted();
          }
        }
        return next.isPresent();
      }

      @Override
      public Event next() {
        if (!hasNext()) {
          throw new NoSuchElementException("the watcher is closed");
        }
        Event event = next.orElseThrow();
        next = Optional.empty();
        return event;
      }
    };
  }

  /**
   * Of the last point whose events have all been given out: where to go on after a restart of the program.
   *
   * @return empty before the first point
   */
  public Optional<ResumeToken> resumeToken() {
    lock.lock();
    try {
      return position.token();
    } finally {
      lock.unlock();
    }
  }

  /**
   * Whether every event of the last response has been given out. Events of one response belong together:
   * publish a copy here, not between them.
   *
   * @return false while {@link #next()} has more of it
   */
  public boolean responseIsDone() {
    lock.lock();
    try {
      return ready.isEmpty();
    } finally {
      lock.unlock();
    }
  }

  /**
   * Forgets the position and goes on with a new initial state, after backoff. For when your copy has turned
   * out not to be what the server takes it for.
   */
  public void restart() {
    lock.lock();
    try {
      if (state instanceof State.Ended || state instanceof State.Closed) {
        return;
      }
      ready.clear();
      Optional<Duration> lived = Optional.empty();
      if (state instanceof State.Streaming streaming) {
        lived = cancel(streaming);
      }
      lose(Disconnect.by(Disconnect.Cause.RESTARTED), lived);
    } finally {
      lock.unlock();
    }
  }

  /** Ends the watch and cancels its stream. Who waits for an event is told that there is none. */
  @Override
  public void close() {
    lock.lock();
    try {
      if (state instanceof State.Streaming streaming) {
        streaming.stream().cancel();
      }
      ready.clear();
      state = new State.Closed();
      changed.signalAll();
    } finally {
      lock.unlock();
    }
    connection.disowns(this);
  }

  private Optional<Event> next(long timeoutNanos) throws InterruptedException {
    lock.lockInterruptibly();
    try {
      long began = System.nanoTime();
      while (true) {
        if (!ready.isEmpty()) {
          Event event = ready.remove();
          position.pass(event);
          return Optional.of(event);
        }
        if (state instanceof State.Closed) {
          return Optional.empty();
        }
        if (state instanceof State.Ended ended) {
          throw ended.error();
        }
        long left =
            timeoutNanos == Long.MAX_VALUE
                ? Long.MAX_VALUE
                : timeoutNanos - (System.nanoTime() - began);
        if (!step(left)) {
          return Optional.empty();
        }
      }
    } finally {
      lock.unlock();
    }
  }

  /**
   * Does what the state asks for, or waits for it.
   *
   * @return false if there is nothing to do but to wait, and no time left to
   */
  private boolean step(long leftNanos) throws InterruptedException {
    if (state instanceof State.Disconnected) {
      open();
      return true;
    }
    if (state instanceof State.Waiting waiting) {
      long untilThen = waiting.untilNanos() - System.nanoTime();
      if (untilThen <= 0) {
        state = new State.Disconnected();
        return true;
      }
      return waitFor(untilThen, leftNanos);
    }
    return state instanceof State.Streaming streaming ? step(streaming, leftNanos) : true;
  }

  private boolean step(State.Streaming streaming, long leftNanos) throws InterruptedException {
    ResponseStream stream = streaming.stream();
    // Responses before deadlines and ends: who reads late has not been left in silence.
    Optional<WatchResponse> response = stream.takeResponse();
    Optional<Disconnect> lost =
        response.isPresent() ? take(streaming, response.get()) : stream.end();
    if (response.isEmpty() && lost.isEmpty()) {
      lost = impatience(streaming);
    }
    if (lost.isPresent()) {
      lose(lost.get(), cancel(streaming));
      return true;
    }
    if (response.isPresent()) {
      return true;
    }
    stream.ask();
    if (stream.hasNews()) {
      // A channel without threads of its own answers within the call.
      return true;
    }
    boolean syncing = streaming.translation().phase().isSyncing();
    long patience =
        Math.min(
            streaming.silence().leftNanos(),
            syncing ? streaming.progress().leftNanos() : Long.MAX_VALUE);
    long began = System.nanoTime();
    try {
      return waitFor(patience, leftNanos);
    } finally {
      long waited = System.nanoTime() - began;
      streaming.silence().spend(waited);
      streaming.progress().spend(waited);
    }
  }

  /**
   * @return false if there is no time left to wait
   */
  private boolean waitFor(long nanos, long leftNanos) throws InterruptedException {
    if (leftNanos <= 0) {
      return false;
    }
    changed.awaitNanos(Math.min(nanos, leftNanos));
    return true;
  }

  private void open() {
    Translation translation = position.newTranslation();
    ResponseStream stream =
        ResponseStream.open(connection, position.request(), lock, changed);
    state =
        new State.Streaming(
            stream,
            translation,
            new Patience(options.firstResponseTimeout()),
            new Patience(options.progressTimeout()));
  }

  private Optional<Disconnect> take(State.Streaming streaming, WatchResponse response) {
    Translation translation = streaming.translation();
    streaming.silence().renew(options.silenceLimit());
    boolean wasSyncing = translation.phase().isSyncing();
    try {
      ready.addAll(translation.translate(response));
    } catch (ListwatchException breach) {
      return Optional.of(Disconnect.by(breach));
    }
    if (response.getEventsCount() > 0 || translation.phase().isSyncing() && !wasSyncing) {
      streaming.progress().renew(options.progressTimeout());
    }
    recovery.responded(translation.phase());
    return Translation.isGoingAway(response)
        ? Optional.of(Disconnect.by(Disconnect.Cause.GOING_AWAY))
        : Optional.empty();
  }

  private Optional<Disconnect> impatience(State.Streaming streaming) {
    Phase phase = streaming.translation().phase();
    if (streaming.silence().isOver()) {
      return Optional.of(
          Disconnect.by(
              phase.isBeforeTheFirstResponse()
                  ? Disconnect.Cause.NO_RESPONSE
                  : Disconnect.Cause.SILENT));
    }
    return phase.isSyncing() && streaming.progress().isOver()
        ? Optional.of(Disconnect.by(Disconnect.Cause.NO_PROGRESS))
        : Optional.empty();
  }

  /**
   * The old stream goes before a new one comes: two would count twice against the server's limits.
   *
   * @return how long it lived
   */
  private Optional<Duration> cancel(State.Streaming streaming) {
    var lived = streaming.stream().livedNanos();
    streaming.stream().cancel();
    position.takeBack(streaming.translation().repeats());
    return lived.isPresent()
        ? Optional.of(Duration.ofNanos(lived.getAsLong()))
        : Optional.empty();
  }

  private void lose(Disconnect lost, Optional<Duration> lived) {
    try {
      Duration delay = recovery.after(lost, lived);
      LOG.log(System.Logger.Level.DEBUG, "watch stream lost: {0}; next in {1}", lost, delay);
      ready.add(new Event.Disconnected(lost, delay));
      state = new State.Waiting(System.nanoTime() + Patience.saturatedNanos(delay));
      connection.retriesSoon();
    } catch (RefusedException | ExpiredException end) {
      state = new State.Ended(end);
    }
  }
}
