package dev.listwatch.client;

import dev.listwatch.v1.Resource;
import dev.listwatch.v1.Selector;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * A copy of what a selector matches that keeps itself in step with the server, by a daemon thread. Safe for
 * use by many threads.
 *
 * <p>Every snapshot shows all objects as of one revision. What is held is served while the server is away,
 * however long, and is marked stale; also after the server's store was replaced, until the new state is
 * complete. A watch that is refused stops the reflector: what it holds can still be read.
 *
 * @param <T> what objects are decoded to
 */
public final class Reflector<T> implements AutoCloseable {
  /**
   * How long changes wait for the bookmark that completes their revision. Listwatch's servers send it with
   * them; one that does not must not keep changes back until the next interval ends.
   */
  private static final Duration SETTLE = Duration.ofMillis(100);

  private final Connection connection;
  private final Watcher watcher;
  private final ReflectedCopy<T> copy;
  private final String name;

  /** Guards the status and the subscriptions, so that who subscribes misses nothing in between. */
  private final Object monitor = new Object();

  private volatile ReflectorStatus<T> status =
      new ReflectorStatus<>(
          new Snapshot<>(ImmutableTree.empty(), 0, Optional.empty()),
          false,
          true,
          Optional.empty(),
          false);
  private final List<ReflectorSubscription<T>> subscriptions = new ArrayList<>();

  // Of the reflector's own thread.
  private long revision;
  private Optional<ResumeToken> resumeToken = Optional.empty();

  /**
   * The stream broke while changes waited for their bookmark: they may be half of a revision, of which the
   * next stream tells the other half.
   */
  private boolean torn;

  /** What a resumed stream has to reach before the copy is in step again; below any before it is known. */
  private long target = Long.MIN_VALUE;

  private Reflector(
      Connection connection, Watcher watcher, String name, Function<Resource, T> decoder) {
    this.connection = connection;
    this.watcher = watcher;
    this.name = name;
    this.copy = new ReflectedCopy<>(decoder);
  }

  static <T> Reflector<T> start(
      Connection connection, Watcher watcher, Selector selector, Function<Resource, T> decoder) {
    String name = "listwatch-reflector-" + selector.getCollection();
    Reflector<T> reflector = new Reflector<>(connection, watcher, name, decoder);
    // The watcher is closed with the reflector, which has to know.
    connection.disowns(watcher);
    connection.owns(reflector);
    Thread thread = new Thread(reflector::run, name);
    thread.setDaemon(true);
    thread.start();
    return reflector;
  }

  /**
   * The newest consistent state. Never waits.
   *
   * @return a snapshot that does not change
   */
  public Snapshot<T> snapshot() {
    return status.snapshot();
  }

  /**
   * One object of the newest state. For several that fit together take a {@link #snapshot()}.
   *
   * @param key its name
   * @return empty if there is none
   */
  public Optional<Reflected<T>> get(ObjectKey key) {
    return snapshot().get(key);
  }

  /**
   * The revision of the newest state.
   *
   * @return a revision of the store; 0 before the first state is complete
   */
  public long revision() {
    return snapshot().revision();
  }

  /**
   * How the reflector is doing. Never waits.
   *
   * @return as of now
   */
  public ReflectorStatus<T> status() {
    return status;
  }

  /**
   * Waits until the copy has been in step with the server for the first time.
   *
   * @param timeout how long at most
   * @return the newest state
   * @throws TimeoutException if it takes longer
   * @throws RefusedException if the watch was refused before
   * @throws ListwatchException with the code {@code CANCELLED} if the reflector was closed before
   * @throws InterruptedException if the thread is interrupted
   */
  public Snapshot<T> waitUntilReady(Duration timeout)
      throws InterruptedException, TimeoutException {
    return waitFor(ReflectorStatus::ready, timeout, "ready");
  }

  /**
   * Waits until the snapshot shows at least this revision: after a write, that of the write's answer, to
   * read what was written. If the selector does not match what was written, only the next bookmark can
   * tell, so allow for a bookmark interval.
   *
   * @param wanted a revision of the store
   * @param timeout how long at most
   * @return the newest state
   * @throws TimeoutException if it takes longer
   * @throws RefusedException if the watch was refused before
   * @throws ListwatchException with the code {@code CANCELLED} if the reflector was closed before
   * @throws InterruptedException if the thread is interrupted
   */
  public Snapshot<T> waitForRevision(long wanted, Duration timeout)
      throws InterruptedException, TimeoutException {
    return waitFor(
        now -> now.snapshot().revision() >= wanted, timeout, "at revision " + wanted);
  }

  /**
   * Tells a listener of every object and then of every change, at its own pace.
   *
   * @param listener is called by a daemon thread of its own
   * @return to end it
   */
  public Subscription subscribe(ReflectorListener<T> listener) {
    ReflectorSubscription<T> subscription = new ReflectorSubscription<>();
    synchronized (monitor) {
      List<KeyChange<T>> existing = new ArrayList<>();
      for (Reflected<T> object : status.snapshot()) {
        existing.add(new KeyChange<>(object.key(), Optional.empty(), Optional.of(object)));
      }
      subscription.push(existing);
      if (status.ready()) {
        subscription.markSynced();
      }
      if (status.closed() || status.stopped().isPresent()) {
        subscription.stop(status.stopped());
      }
      subscriptions.add(subscription);
    }
    subscription.start(name + "-listener", listener);
    return subscription;
  }

  /** Stops it and cancels its stream. What is held can still be read, and is stale. */
  @Override
  public void close() {
    watcher.close();
    synchronized (monitor) {
      if (status.stopped().isEmpty()) {
        end(Optional.empty());
      }
    }
    connection.disowns(this);
  }

  private Snapshot<T> waitFor(
      Predicate<ReflectorStatus<T>> holds, Duration timeout, String what)
      throws InterruptedException, TimeoutException {
    long deadline = System.nanoTime() + Patience.saturatedNanos(timeout);
    synchronized (monitor) {
      while (!holds.test(status)) {
        if (status.stopped().isPresent()) {
          throw rethrown(status.stopped().get());
        }
        if (status.closed()) {
          throw ListwatchException.of(
              Status.CANCELLED.withDescription("the reflector is closed"), null);
        }
        long left = deadline - System.nanoTime();
        if (left <= 0) {
          throw new TimeoutException("not " + what + " within " + timeout);
        }
        // Rounded up: to be too early would be to ask again and again.
        monitor.wait(left / 1_000_000 + 1);
      }
      return status.snapshot();
    }
  }

  /** With the stack of the thread that waits. */
  private static ListwatchException rethrown(ListwatchException stopped) {
    return stopped instanceof RefusedException
        ? new RefusedException(stopped)
        : new ListwatchException(stopped.failure(), stopped);
  }

  private void run() {
    try {
      follow();
    } catch (ListwatchException error) {
      stop(error);
    } catch (InterruptedException impossible) {
      close();
    } catch (RuntimeException | Error fault) {
      // Readers and listeners must learn of it, however this thread ends.
      stop(
          ListwatchException.of(
              Status.INTERNAL.withDescription("a fault of the client").withCause(fault), null));
      throw fault;
    }
  }

  private void follow() throws InterruptedException {
    long settleAt = 0;
    boolean settling = false;
    while (true) {
      Optional<Event> event =
          settling
              ? watcher.poll(Duration.ofNanos(settleAt - System.nanoTime()))
              : watcher.next();
      if (event.isPresent()) {
        take(event.get());
        if (watcher.responseIsDone()) {
          boolean unsettled = copy.hasChanges() && !torn;
          if (unsettled && !settling) {
            settleAt = System.nanoTime() + SETTLE.toNanos();
          }
          settling = unsettled;
        }
      }
      if (settling && System.nanoTime() - settleAt >= 0 && watcher.responseIsDone()) {
        settling = false;
        publish();
      }
      if (event.isEmpty() && status.closed()) {
        return;
      }
    }
  }

  private void take(Event event) {
    if (event instanceof Event.InitBegin
        || event instanceof Event.NetBegin
        || event instanceof Event.ManifestBegin) {
      // Before it in the same response are whole revisions.
      if (!torn) {
        publish();
      }
      markStale();
    } else if (event instanceof Event.Disconnected) {
      torn = copy.hasChanges();
      target = Long.MIN_VALUE;
      markStale();
    }
    ReflectedCopy.Applied applied = copy.apply(event);
    if (applied == ReflectedCopy.Applied.CONTRADICTION) {
      watcher.restart();
    } else if (event instanceof Event.AtPoint at) {
      if (event instanceof Event.Resumed) {
        target = Math.max(at.point().latestRevision(), at.point().revision());
      } else {
        torn = false;
      }
      reach(at.point(), applied == ReflectedCopy.Applied.SWAPPED);
    }
  }

  /** Takes a point: everything up to it is in the copy. */
  private void reach(Point point, boolean swapped) {
    if (!point.resumeToken().isEmpty()) {
      resumeToken = Optional.of(point.resumeToken());
    }
    // Back only with a whole new state, which may be of another store.
    revision = swapped ? point.revision() : Math.max(revision, point.revision());
    boolean inStep = swapped || revision >= target;
    if (inStep) {
      target = Long.MIN_VALUE;
    }
    synchronized (monitor) {
      if (!torn) {
        publish();
      }
      if (inStep && !status.closed()) {
        boolean newlyReady = !status.ready();
        status =
            new ReflectorStatus<>(status.snapshot(), true, false, Optional.empty(), false);
        if (newlyReady) {
          subscriptions.forEach(ReflectorSubscription::markSynced);
        }
        monitor.notifyAll();
      }
    }
  }

  /** Lets readers see the current state. */
  private void publish() {
    synchronized (monitor) {
      List<KeyChange<T>> changes = copy.publish();
      // Without a bookmark, the changes themselves say how far the state is.
      revision = Math.max(revision, copy.newestRevision());
      Snapshot<T> snapshot = new Snapshot<>(copy.current(), revision, resumeToken);
      // First, so that a listener that looks finds at least what it was told.
      status =
          new ReflectorStatus<>(
              snapshot, status.ready(), status.stale(), status.stopped(), status.closed());
      subscriptions.removeIf(ReflectorSubscription::isClosed);
      if (!changes.isEmpty()) {
        subscriptions.forEach(subscription -> subscription.push(changes));
      }
      monitor.notifyAll();
    }
  }

  private void markStale() {
    synchronized (monitor) {
      status =
          new ReflectorStatus<>(
              status.snapshot(), status.ready(), true, status.stopped(), status.closed());
    }
  }

  private void stop(ListwatchException error) {
    synchronized (monitor) {
      end(Optional.of(error));
    }
    connection.disowns(this);
    watcher.close();
  }

  private void end(Optional<ListwatchException> error) {
    status =
        new ReflectorStatus<>(
            status.snapshot(), status.ready(), true, error, error.isEmpty());
    subscriptions.forEach(subscription -> subscription.stop(error));
    monitor.notifyAll();
  }
}
