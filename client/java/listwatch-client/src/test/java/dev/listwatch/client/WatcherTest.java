package dev.listwatch.client;

import static dev.listwatch.client.Messages.event;
import static dev.listwatch.client.Messages.object;
import static dev.listwatch.client.Messages.response;
import static dev.listwatch.v1.BookmarkKind.BOOKMARK_KIND_INITIAL_STATE_BEGIN;
import static dev.listwatch.v1.BookmarkKind.BOOKMARK_KIND_INITIAL_STATE_END;
import static dev.listwatch.v1.BookmarkKind.BOOKMARK_KIND_PROGRESS;
import static dev.listwatch.v1.EventType.EVENT_TYPE_EXISTING;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.listwatch.v1.Key;
import dev.listwatch.v1.Selector;
import io.grpc.Status;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class WatcherTest {
  private static final Selector PODS = Selector.newBuilder().setCollection("pods").build();
  private static final Duration LONG = Duration.ofSeconds(20);

  private ScriptedServer server;
  private ListwatchClient client;

  @BeforeEach
  void start() throws IOException {
    server = new ScriptedServer();
    client = server.client();
  }

  @AfterEach
  void stop() {
    client.close();
    server.close();
  }

  @Test
  void eventsComeInOrderAndGiveAPosition() throws Exception {
    try (Watcher watcher = client.watch(PODS)) {
      assertEquals(Optional.empty(), watcher.poll(Duration.ZERO));
      sendState(server.nextStream());
      assertInstanceOf(Event.InitBegin.class, take(watcher));
      assertInstanceOf(Event.InitApply.class, take(watcher));
      assertFalse(watcher.responseIsDone());
      assertEquals(Optional.empty(), watcher.resumeToken());
      assertInstanceOf(Event.InitDone.class, take(watcher));
      assertEquals(Optional.of(new ResumeToken("t3")), watcher.resumeToken());
    }
  }

  @Test
  void whoDoesNotAskIsNotLeftInSilence() throws Exception {
    WatchOptions hasty = WatchOptions.DEFAULT.withBookmarkInterval(Duration.ofMillis(200));
    try (Watcher watcher = client.watch(PODS, hasty)) {
      watcher.poll(Duration.ZERO);
      var stream = server.nextStream();
      sendState(stream);
      assertInstanceOf(Event.InitBegin.class, take(watcher));
      assertInstanceOf(Event.InitApply.class, take(watcher));
      assertInstanceOf(Event.InitDone.class, take(watcher));
      Thread.sleep(1200);
      stream.out().onNext(response(BOOKMARK_KIND_PROGRESS, 4));
      assertInstanceOf(Event.Bookmark.class, take(watcher));
      Event.Disconnected lost = assertInstanceOf(Event.Disconnected.class, take(watcher));
      assertEquals(Disconnect.Cause.SILENT, lost.reason().cause());
    }
  }

  @Test
  void whatIsNotAskedForIsNotTakenFromTheTransport() throws Exception {
    try (Watcher watcher = client.watch(PODS)) {
      watcher.poll(Duration.ZERO);
      var stream = server.nextStream();
      sendState(stream);
      take(watcher);
      take(watcher);
      take(watcher);
      int sent = 0;
      while (stream.out().isReady() && sent < 10_000) {
        stream.out().onNext(response(BOOKMARK_KIND_PROGRESS, 4 + sent++));
      }
      assertTrue(sent < 10_000, "the server was not held back");
    }
  }

  @Test
  void anotherThreadMayClose() throws Exception {
    Watcher watcher = client.watch(PODS);
    var events = CompletableFuture.supplyAsync(() -> watcher.iterator().hasNext());
    var stream = server.nextStream();
    watcher.close();
    assertFalse(events.get(10, TimeUnit.SECONDS));
    while (!stream.out().isCancelled()) {
      Thread.sleep(5);
    }
  }

  @Test
  void anInterruptIsHonouredAndNothingIsMissed() throws Exception {
    try (Watcher watcher = client.watch(PODS)) {
      Thread.currentThread().interrupt();
      var iterator = watcher.iterator();
      assertThrows(InterruptedCallException.class, iterator::hasNext);
      assertTrue(Thread.interrupted());
      watcher.poll(Duration.ZERO);
      sendState(server.nextStream());
      assertInstanceOf(Event.InitBegin.class, iterator.next());
    }
  }

  @Test
  void callsHonourInterruptsToo() {
    Thread.currentThread().interrupt();
    assertThrows(
        InterruptedCallException.class, () -> client.get(Key.getDefaultInstance()));
    assertTrue(Thread.interrupted());
  }

  @Test
  void aRefusalIsToldAgainWithEachCall() throws Exception {
    try (Watcher watcher = client.watch(PODS)) {
      watcher.poll(Duration.ZERO);
      server.nextStream().out().onError(Messages.status(Status.Code.PERMISSION_DENIED, ""));
      assertThrows(RefusedException.class, () -> watcher.poll(LONG));
      assertThrows(RefusedException.class, watcher::next);
    }
  }

  @Test
  void closingTheClientClosesItsWatchers() throws Exception {
    Watcher watcher = client.watch(PODS);
    client.close();
    assertEquals(Optional.empty(), watcher.next());
    assertThrows(IllegalStateException.class, () -> client.watch(PODS));
  }

  @Test
  void aSubscriberGetsWhatItRequests() throws Exception {
    var subscriber = new Collector();
    client.publisher(PODS, WatchOptions.DEFAULT).subscribe(subscriber);
    Flow.Subscription subscription = subscriber.subscription.get(10, TimeUnit.SECONDS);
    subscription.request(2);
    sendState(server.nextStream());
    assertInstanceOf(Event.InitBegin.class, subscriber.take());
    assertInstanceOf(Event.InitApply.class, subscriber.take());
    Thread.sleep(100);
    assertTrue(subscriber.events.isEmpty());
    subscription.request(1);
    assertInstanceOf(Event.InitDone.class, subscriber.take());
    client.close();
    subscriber.end.get(10, TimeUnit.SECONDS);
  }

  @Test
  void aSubscriberThatRequestsNothingHearsOfItsMistake() throws Exception {
    var subscriber = new Collector();
    client.publisher(PODS, WatchOptions.DEFAULT).subscribe(subscriber);
    subscriber.subscription.get(10, TimeUnit.SECONDS).request(0);
    var error =
        assertThrows(
            ExecutionException.class, () -> subscriber.end.get(10, TimeUnit.SECONDS));
    assertInstanceOf(IllegalArgumentException.class, error.getCause());
  }

  @Test
  void aReflectorShowsAndTells() throws Exception {
    try (Reflector<String> pods =
        client.reflect(PODS, resource -> resource.getValue().toStringUtf8())) {
      BlockingQueue<String> told = new LinkedBlockingQueue<>();
      var stream = server.nextStream();
      assertThrows(TimeoutException.class, () -> pods.waitUntilReady(Duration.ofMillis(20)));
      sendState(stream);
      Snapshot<String> snapshot = pods.waitUntilReady(LONG);
      assertEquals(3, snapshot.revision());
      assertEquals(List.of("a1"), snapshot.stream().map(Reflected::value).toList());
      pods.subscribe(
          new ReflectorListener<>() {
            @Override
            public void changed(KeyChange<String> change) {
              told.add(change.key().name());
              throw new IllegalStateException("a listener's fault stops nothing");
            }

            @Override
            public void synced() {
              told.add("synced");
            }

            @Override
            public void stopped(Optional<ListwatchException> error) {
              told.add("stopped " + error.isPresent());
            }
          });
      assertEquals("a", told.poll(10, TimeUnit.SECONDS));
      assertEquals("synced", told.poll(10, TimeUnit.SECONDS));
      pods.close();
      assertEquals("stopped false", told.poll(10, TimeUnit.SECONDS));
      assertEquals(snapshot.revision(), pods.revision());
      var closed =
          assertThrows(ListwatchException.class, () -> pods.waitForRevision(9, LONG));
      assertEquals(Status.Code.CANCELLED, closed.code());
    }
  }

  private static void sendState(ScriptedServer.Stream stream) {
    stream.out().onNext(response(BOOKMARK_KIND_INITIAL_STATE_BEGIN, 3));
    stream
        .out()
        .onNext(
            response(
                BOOKMARK_KIND_INITIAL_STATE_END, 3, event(EVENT_TYPE_EXISTING, object("a", 1))));
  }

  private static Event take(Watcher watcher) throws InterruptedException {
    return watcher.poll(LONG).orElseThrow();
  }

  private static final class Collector implements Flow.Subscriber<Event> {
    final CompletableFuture<Flow.Subscription> subscription = new CompletableFuture<>();
    final CompletableFuture<Void> end = new CompletableFuture<>();
    final BlockingQueue<Event> events = new LinkedBlockingQueue<>();

    Event take() throws InterruptedException {
      return events.poll(10, TimeUnit.SECONDS);
    }

    @Override
    public void onSubscribe(Flow.Subscription given) {
      subscription.complete(given);
    }

    @Override
    public void onNext(Event event) {
      events.add(event);
    }

    @Override
    public void onError(Throwable error) {
      end.completeExceptionally(error);
    }

    @Override
    public void onComplete() {
      end.complete(null);
    }
  }
}
