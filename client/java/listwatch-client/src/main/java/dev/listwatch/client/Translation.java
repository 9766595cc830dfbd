package dev.listwatch.client;

import dev.listwatch.v1.Bookmark;
import dev.listwatch.v1.BookmarkKind;
import dev.listwatch.v1.Resource;
import dev.listwatch.v1.WatchEvent;
import dev.listwatch.v1.WatchResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** From the responses of one stream to events. Knows nothing of time and transport. */
final class Translation {
  private Phase phase;
  private final Told repeats;

  /**
   * @param repeats what earlier streams told after the point at which this one starts: not told again
   */
  Translation(boolean forInitialState, Told repeats) {
    this.phase = forInitialState ? Phase.OPENED_FOR_STATE : Phase.OPENED;
    this.repeats = repeats;
  }

  Phase phase() {
    return phase;
  }

  Told repeats() {
    return repeats;
  }

  /**
   * What a response meant. Afterwards the phase is the one that it leads to.
   *
   * @throws ListwatchException if it breaks the protocol
   */
  List<Event> translate(WatchResponse response) {
    if (phase.isBeforeTheFirstResponse() && response.getEventsCount() > 0) {
      throw ListwatchException.protocolBreach("events before the first bookmark");
    }
    List<Event> events = new ArrayList<>(response.getEventsCount() + 1);
    for (WatchEvent event : response.getEventsList()) {
      // Of a newer server: nothing that this client could act on.
      if (event.hasResource() && event.getResource().hasKey() && !isRepeated(event)) {
        events.add(eventOf(event));
      }
    }
    if (response.hasBookmark()) {
      take(response.getBookmark()).ifPresent(events::add);
    }
    return events;
  }

  static boolean isGoingAway(WatchResponse response) {
    return response.getBookmark().getKind() == BookmarkKind.BOOKMARK_KIND_GOING_AWAY;
  }

  /** Initial states, net differences and manifests are told again as a whole. */
  private boolean isRepeated(WatchEvent event) {
    return phase == Phase.LIVE
        && switch (event.getType()) {
          case EVENT_TYPE_UNCHANGED -> false;
          default -> repeats.includes(event.getResource());
        };
  }

  private Event eventOf(WatchEvent event) {
    Resource object = event.getResource();
    Optional<Resource> previous =
        event.hasPrevious() ? Optional.of(event.getPrevious()) : Optional.empty();
    return switch (event.getType()) {
      case EVENT_TYPE_DELETED -> new Event.Delete(object, previous, event.getDeleteCause());
      case EVENT_TYPE_UNCHANGED -> new Event.Unchanged(object);
      case EVENT_TYPE_ADDED -> applied(object, previous, Event.Change.ADDED);
      case EVENT_TYPE_UPSERTED, EVENT_TYPE_EXISTING ->
          applied(object, previous, Event.Change.UPSERTED);
      // The API says that unknown types are to be taken so.
      case EVENT_TYPE_MODIFIED, EVENT_TYPE_UNSPECIFIED, UNRECOGNIZED ->
          applied(object, previous, Event.Change.MODIFIED);
    };
  }

  private Event applied(Resource object, Optional<Resource> previous, Event.Change change) {
    return phase == Phase.INITIAL
        ? new Event.InitApply(object)
        : new Event.Apply(object, previous, change);
  }

  private Optional<Event> take(Bookmark bookmark) {
    return switch (bookmark.getKind()) {
      case BOOKMARK_KIND_INITIAL_STATE_BEGIN -> begin(Phase.INITIAL, new Event.InitBegin());
      case BOOKMARK_KIND_NET_BEGIN -> begin(Phase.NET, new Event.NetBegin());
      case BOOKMARK_KIND_MANIFEST_BEGIN -> begin(Phase.MANIFEST, new Event.ManifestBegin());
      case BOOKMARK_KIND_INITIAL_STATE_END -> end(Point.of(bookmark));
      case BOOKMARK_KIND_GOING_AWAY ->
          // Not even its first word: the position stays what it was.
          phase.isBeforeTheFirstResponse() ? Optional.empty() : progress(Point.of(bookmark));
      default -> progress(Point.of(bookmark));
    };
  }

  private Optional<Event> begin(Phase next, Event event) {
    phase = next;
    return Optional.of(event);
  }

  private Optional<Event> end(Point point) {
    Event event =
        switch (phase) {
          case OPENED_FOR_STATE, OPENED, LIVE ->
              throw ListwatchException.protocolBreach("the end of what never began");
          case INITIAL -> new Event.InitDone(point);
          case NET, MANIFEST -> new Event.CaughtUp(point);
        };
    phase = Phase.LIVE;
    repeats.clear();
    return Optional.of(event);
  }

  private Optional<Event> progress(Point point) {
    switch (phase) {
      case OPENED_FOR_STATE ->
          throw ListwatchException.protocolBreach("an initial state without its beginning");
      case OPENED -> {
        // What earlier streams told lies after this point and is told again.
        phase = Phase.LIVE;
        return Optional.of(new Event.Resumed(point));
      }
      case LIVE -> {
        repeats.clear();
        return Optional.of(new Event.Bookmark(point));
      }
      default -> {
        // A sign of life. Its token would skip what is still owed, or, in a net difference, name a
        // point at which no consistent copy exists.
        return Optional.empty();
      }
    }
  }
}
