package dev.listwatch.client;

import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Flow;

/** A watcher that is read as far as its subscriber requests. */
final class WatchSubscription implements Flow.Subscription, AutoCloseable {
  private enum State {
    OPEN,
    /** The subscriber wants no more. */
    CANCELLED,
    /** The subscriber requested what cannot be given, which it has to hear. */
    MISUSED,
    /** The client is closed, which completes the subscription. */
    CLOSED
  }

  private final Connection connection;
  private final Watcher watcher;
  private final Flow.Subscriber<? super Event> subscriber;
  private final Object monitor = new Object();
  private long requested;
  private State state = State.OPEN;

  private WatchSubscription(
      Connection connection, Watcher watcher, Flow.Subscriber<? super Event> subscriber) {
    this.connection = connection;
    this.watcher = watcher;
    this.subscriber = Objects.requireNonNull(subscriber);
  }

  static void start(
      Connection connection, Watcher watcher, Flow.Subscriber<? super Event> subscriber) {
    WatchSubscription subscription = new WatchSubscription(connection, watcher, subscriber);
    connection.owns(subscription);
    Thread thread = new Thread(subscription::run, "listwatch-publisher");
    thread.setDaemon(true);
    thread.start();
  }

  @Override
  public void request(long more) {
    if (more <= 0) {
      leave(State.MISUSED);
      return;
    }
    synchronized (monitor) {
      // More than can be counted is no bound at all.
      requested = requested > Long.MAX_VALUE - more ? Long.MAX_VALUE : requested + more;
      monitor.notifyAll();
    }
  }

  @Override
  public void cancel() {
    leave(State.CANCELLED);
  }

  @Override
  public void close() {
    leave(State.CLOSED);
  }

  private void leave(State next) {
    synchronized (monitor) {
      if (state == State.OPEN) {
        state = next;
      }
      monitor.notifyAll();
    }
    watcher.close();
  }

  private void run() {
    try (watcher) {
      subscriber.onSubscribe(this);
      while (awaitRequest()) {
        Optional<Event> event = watcher.next();
        if (event.isEmpty()) {
          break;
        }
        subscriber.onNext(event.get());
      }
      end();
    } catch (RefusedException | ExpiredException error) {
      subscriber.onError(error);
    } catch (InterruptedException subscribersOwn) {
      subscriber.onError(ListwatchException.interrupted());
    } finally {
      connection.disowns(this);
    }
  }

  /** False if there will be no more events. */
  private boolean awaitRequest() throws InterruptedException {
    synchronized (monitor) {
      while (requested == 0 && state == State.OPEN) {
        monitor.wait();
      }
      if (state != State.OPEN) {
        return false;
      }
      requested--;
      return true;
    }
  }

  private void end() {
    State why;
    synchronized (monitor) {
      why = state;
    }
    switch (why) {
      case MISUSED ->
          subscriber.onError(new IllegalArgumentException("less than one event was requested"));
      // The client may close the watcher before it closes this.
      case OPEN, CLOSED -> subscriber.onComplete();
      case CANCELLED -> {}
    }
  }
}
