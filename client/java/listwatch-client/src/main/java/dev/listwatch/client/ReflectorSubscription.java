package dev.listwatch.client;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * One listener's queue: for each name the newest state, however slow the listener is. Bounded by the objects
 * that the listener was told of and those that exist: each name is in it once, and one that came and went
 * unseen leaves it.
 */
final class ReflectorSubscription<T> implements Subscription {
  private static final System.Logger LOG = System.getLogger(Reflector.class.getName());

  /** What is to be told of a name: its place in the queue, and what the listener was told last. */
  private record Waiting<T>(long place, Optional<Reflected<T>> told, Optional<Reflected<T>> newest) {}

  private final Map<ObjectKey, Waiting<T>> waiting = new LinkedHashMap<>();
  private long nextPlace;

  /** What has a place before this is part of the first state. */
  private long syncedAt = Long.MAX_VALUE;

  private boolean syncedTold;
  private boolean closed;

  /** Null while the reflector goes on. */
  private Optional<ListwatchException> stopped;

  void start(String name, ReflectorListener<T> listener) {
    Objects.requireNonNull(listener);
    Thread thread = new Thread(() -> tell(listener), name);
    thread.setDaemon(true);
    thread.start();
  }

  synchronized void push(List<KeyChange<T>> changes) {
    for (KeyChange<T> change : changes) {
      Waiting<T> there = waiting.get(change.key());
      Optional<Reflected<T>> told = there == null ? change.before() : there.told();
      if (Reflected.same(told.orElse(null), change.after().orElse(null))) {
        waiting.remove(change.key());
      } else {
        long place = there == null ? nextPlace++ : there.place();
        waiting.put(change.key(), new Waiting<>(place, told, change.after()));
      }
    }
    notifyAll();
  }

  synchronized void markSynced() {
    syncedAt = Math.min(syncedAt, nextPlace);
    notifyAll();
  }

  synchronized void stop(Optional<ListwatchException> error) {
    stopped = error;
    notifyAll();
  }

  @Override
  public synchronized void close() {
    closed = true;
    waiting.clear();
    notifyAll();
  }

  synchronized boolean isClosed() {
    return closed;
  }

  private void tell(ReflectorListener<T> listener) {
    try {
      for (Runnable call = next(listener); call != null; call = next(listener)) {
        try {
          call.run();
        } catch (RuntimeException fault) {
          LOG.log(System.Logger.Level.WARNING, "a reflector's listener failed", fault);
        }
      }
    } catch (InterruptedException listenersOwn) {
      // Only a listener can have interrupted this thread: it wants to hear no more.
      close();
    }
  }

  /** Null when there is nothing more to tell. */
  private synchronized Runnable next(ReflectorListener<T> listener) throws InterruptedException {
    while (true) {
      if (closed) {
        return null;
      }
      Iterator<Map.Entry<ObjectKey, Waiting<T>>> entries = waiting.entrySet().iterator();
      Map.Entry<ObjectKey, Waiting<T>> first = entries.hasNext() ? entries.next() : null;
      boolean firstStateIsTold = first == null || first.getValue().place() >= syncedAt;
      if (!syncedTold && syncedAt != Long.MAX_VALUE && firstStateIsTold) {
        syncedTold = true;
        return listener::synced;
      }
      if (first != null) {
        entries.remove();
        Waiting<T> entry = first.getValue();
        KeyChange<T> change = new KeyChange<>(first.getKey(), entry.told(), entry.newest());
        return () -> listener.changed(change);
      }
      if (stopped != null) {
        closed = true;
        Optional<ListwatchException> error = stopped;
        return () -> listener.stopped(error);
      }
      wait();
    }
  }
}
