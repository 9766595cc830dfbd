package dev.listwatch.conformance;

import com.google.gson.JsonObject;
import dev.listwatch.client.Event;
import dev.listwatch.client.ExpiredException;
import dev.listwatch.client.ListwatchException;
import dev.listwatch.client.Watcher;
import java.util.Optional;

/** A watcher whose events are written as lines by a thread of their own. */
final class ToldWatch implements AutoCloseable {
  private final String name;
  private final Watcher watcher;
  private final Lines lines;
  private boolean paused;

  ToldWatch(String name, Watcher watcher, Lines lines) {
    this.name = name;
    this.watcher = watcher;
    this.lines = lines;
    Thread thread = new Thread(this::run, "watch " + name);
    thread.setDaemon(true);
    thread.start();
  }

  synchronized void setPaused(boolean pause) {
    paused = pause;
    notifyAll();
  }

  @Override
  public void close() {
    watcher.close();
    setPaused(false);
  }

  private void run() {
    JsonObject end = new JsonObject();
    try {
      for (Optional<Event> event = next(); event.isPresent(); event = next()) {
        write(Json.event(event.get()));
      }
      end.addProperty("ended", "closed");
    } catch (ListwatchException error) {
      end.addProperty("ended", error instanceof ExpiredException ? "expired" : "refused");
      end.add("error", Json.error(error));
    } catch (InterruptedException impossible) {
      throw new AssertionError(impossible);
    }
    write(end);
  }

  private Optional<Event> next() throws InterruptedException {
    synchronized (this) {
      while (paused) {
        wait();
      }
    }
    return watcher.next();
  }

  private void write(JsonObject line) {
    line.addProperty("watch", name);
    lines.write(line);
  }
}
