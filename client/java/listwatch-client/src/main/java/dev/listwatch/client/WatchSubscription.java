package dev.listwatch.client;

import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Flow;
import java.util.function.Supplier;

/** A watcher that is read as far as its subscriber requests. */
final class WatchSubscription implements Flow.Subscription {
  private final Watcher watcher;
  private final Flow.Subscriber<? super Event> subscriber;
  private final Object monitor = new Object();
  private long requested;
  private boolean cancelled;
  private IllegalArgumentException misuse;

  private WatchSubscription(Watcher watcher, Flow.Subscriber<? super Event> subscriber) {
    this.watcher = watcher;
    this.subscriber = subscriber;
  }

  static void start(Supplier<Watcher> watch, Flow.Subscriber<? super Event> subscriber) {
    Objects.requireNonNull(subscriber);
    WatchSubscription subscription = new WatchSubscription(watch.get(), subscriber);
    Thread thread = new Thread(subscription::run, "listwatch-publisher");
    thread.setDaemon(true);
    thread.start();
  }

  @Override
  public void request(long more) {
    synchronized (monitor) {
      if (more <= 0) {
        misuse = new IllegalArgumentException("requested " + more + " events");
        watcher.close();
      } else {
        requested = requested > Long.MAX_VALUE - more ? Long.MAX_VALUE : requested + more;
      }
      monitor.notifyAll();
    }
  }

  @Override
  public void cancel() {
    synchronized (monitor) {
      cancelled = true;
      monitor.notifyAll();
    }
    watcher.close();
  }

  private void run() {
    try (watcher) {
      subscriber.onSubscribe(this);
      Optional<Event> event = nextRequested();
      while (event.isPresent()) {
        subscriber.onNext(event.get());
        event = nextRequested();
      }
      synchronized (monitor) {
        if (cancelled) {
          return;
        }
      }
      if (misuse != null) {
        subscriber.onError(misuse);
      } else {
        subscriber.onComplete();
      }
    } catch (RefusedException | ExpiredException end) {
      subscriber.onError(end);
    } catch (InterruptedException interrupted) {
      subscriber.onError(ListwatchException.interrupted());
    }
  }

  /** Empty if there will be none. */
  private Optional<Event> nextRequested() throws InterruptedException {
    synchronized (monitor) {
      while (requested == 0 && !cancelled && misuse == null) {
        monitor.wait();
      }
      if (cancelled || misuse != null) {
        return Optional.empty();
      }
      requested--;
    }
    return watcher.next();
  }
}
