package dev.listwatch.client;

import static dev.listwatch.client.Messages.event;
import static dev.listwatch.client.Messages.events;
import static dev.listwatch.client.Messages.object;
import static dev.listwatch.client.Messages.point;
import static dev.listwatch.client.Messages.response;
import static dev.listwatch.v1.BookmarkKind.BOOKMARK_KIND_GOING_AWAY;
import static dev.listwatch.v1.BookmarkKind.BOOKMARK_KIND_INITIAL_STATE_BEGIN;
import static dev.listwatch.v1.BookmarkKind.BOOKMARK_KIND_INITIAL_STATE_END;
import static dev.listwatch.v1.BookmarkKind.BOOKMARK_KIND_NET_BEGIN;
import static dev.listwatch.v1.BookmarkKind.BOOKMARK_KIND_PROGRESS;
import static dev.listwatch.v1.BookmarkKind.BOOKMARK_KIND_RESUMED;
import static dev.listwatch.v1.EventType.EVENT_TYPE_DELETED;
import static dev.listwatch.v1.EventType.EVENT_TYPE_EXISTING;
import static dev.listwatch.v1.EventType.EVENT_TYPE_MODIFIED;
import static dev.listwatch.v1.EventType.EVENT_TYPE_UPSERTED;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.listwatch.v1.Resource;
import dev.listwatch.v1.WatchEvent;
import java.util.List;
import org.junit.jupiter.api.Test;

class TranslationTest {
  private final Translation initial = new Translation(true, new Told());

  @Test
  void anInitialStateHasABeginningAndAnEnd() {
    assertEquals(
        List.of(new Event.InitBegin()),
        initial.translate(response(BOOKMARK_KIND_INITIAL_STATE_BEGIN, 3)));
    assertEquals(
        List.of(new Event.InitApply(object("a", 1)), new Event.InitDone(point(3))),
        initial.translate(
            response(
                BOOKMARK_KIND_INITIAL_STATE_END, 3, event(EVENT_TYPE_EXISTING, object("a", 1)))));
    assertEquals(Phase.LIVE, initial.phase());
  }

  @Test
  void aBookmarkWithinABeginningIsASignOfLifeOnly() {
    initial.translate(response(BOOKMARK_KIND_INITIAL_STATE_BEGIN, 3));
    assertEquals(List.of(), initial.translate(response(BOOKMARK_KIND_PROGRESS, 3)));
    assertEquals(Phase.INITIAL, initial.phase());
  }

  @Test
  void unknownTypesAreModifications() {
    Translation live = resumed(new Told());
    WatchEvent unknown =
        WatchEvent.newBuilder().setTypeValue(99).setResource(object("a", 4)).build();
    Event.Apply apply =
        assertInstanceOf(Event.Apply.class, live.translate(events(unknown)).get(0));
    assertEquals(Event.Change.MODIFIED, apply.change());
  }

  @Test
  void whatHasNoKeyIsPassedOver() {
    WatchEvent keyless = event(EVENT_TYPE_MODIFIED, Resource.getDefaultInstance());
    WatchEvent empty = WatchEvent.newBuilder().setType(EVENT_TYPE_DELETED).build();
    assertEquals(List.of(), resumed(new Told()).translate(events(keyless, empty)));
  }

  @Test
  void breachesAreRefused() {
    var stray = event(EVENT_TYPE_MODIFIED, object("a", 1));
    var breaches =
        List.of(
            events(stray),
            response(BOOKMARK_KIND_INITIAL_STATE_BEGIN, 3, stray),
            response(BOOKMARK_KIND_RESUMED, 3),
            response(BOOKMARK_KIND_PROGRESS, 3),
            response(BOOKMARK_KIND_INITIAL_STATE_END, 3));
    for (var breach : breaches) {
      assertThrows(ListwatchException.class, () -> initial.translate(breach));
    }
    assertEquals(List.of(), initial.translate(response(BOOKMARK_KIND_GOING_AWAY, 3)));
  }

  @Test
  void nothingIsToldTwiceUntilTheNextPoint() {
    Told told = new Told();
    told.record(object("a", 5));
    told.record(object("c", 7));
    Translation live = resumed(told);
    assertEquals(
        List.of("d"),
        names(
            live.translate(
                events(
                    event(EVENT_TYPE_MODIFIED, object("a", 5)),
                    event(EVENT_TYPE_DELETED, object("b", 6)),
                    event(EVENT_TYPE_MODIFIED, object("c", 7)),
                    event(EVENT_TYPE_MODIFIED, object("d", 7))))));
    live.translate(response(BOOKMARK_KIND_PROGRESS, 7));
    assertEquals(
        List.of("a"),
        names(live.translate(events(event(EVENT_TYPE_MODIFIED, object("a", 6))))));
  }

  @Test
  void aNetDifferenceIsToldAgainAsAWhole() {
    Told told = new Told();
    told.record(object("a", 5));
    Translation net = new Translation(false, told);
    net.translate(response(BOOKMARK_KIND_NET_BEGIN, 6));
    assertEquals(
        List.of("a"), names(net.translate(events(event(EVENT_TYPE_UPSERTED, object("a", 5))))));
  }

  private static Translation resumed(Told told) {
    Translation translation = new Translation(false, told);
    translation.translate(response(BOOKMARK_KIND_RESUMED, 4));
    return translation;
  }

  private static List<String> names(List<Event> events) {
    return events.stream()
        .map(Event.Apply.class::cast)
        .map(apply -> apply.object().getKey().getName())
        .toList();
  }
}
