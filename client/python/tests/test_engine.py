from __future__ import annotations

from typing import Any, List

from listwatch.errors import WatchRefused
from listwatch.events import (
    Apply,
    Bookmark,
    Cause,
    Change,
    Disconnected,
    Event,
    InitApply,
    InitBegin,
    InitDone,
    ManifestBegin,
    Resumed,
    Unchanged,
)
from listwatch.reflection.engine import Engine
from listwatch.reflection.notices import NoticeQueue, Synced
from sent import error, point, resource


def apply(name: str, revision: int) -> Apply:
    return Apply(resource(name, revision), Change.UPSERTED)


def feed(engine: Engine[bytes], *events: Event, now: float = 0.0) -> None:
    """One response."""
    for event in events:
        assert engine.take(event, now)
    engine.end_response(now)


def ready() -> Engine[bytes]:
    engine = Engine(bytes, 0.0)
    feed(engine, InitBegin(), InitApply(resource("a", 1)), InitDone(point(3)))
    return engine


def told(queue: NoticeQueue[bytes]) -> List[Any]:
    found: List[Any] = []
    while (notice := queue.pop()) is not None:
        if isinstance(notice, Synced):
            found.append("synced")
        else:
            old, new = notice.old, notice.new
            found.append((notice.key.name, old and old.revision, new and new.revision))
    return found


def test_ready_with_the_first_initial_state() -> None:
    engine = Engine(bytes, 0.0)
    queue = engine.subscribe()
    assert engine.status.stale
    assert not engine.status.ready
    feed(engine, InitBegin(), InitApply(resource("a", 1)), InitDone(point(3)))
    assert engine.status.ready
    assert not engine.status.stale
    assert engine.snapshot().revision == 3
    assert engine.snapshot()["default", "a"].value == b"a@1"
    assert told(queue) == [("a", None, 1), "synced"]


def test_changes_without_a_point_are_shown_after_100_ms() -> None:
    engine = ready()
    feed(engine, apply("a", 4), now=1.0)
    assert engine.snapshot().revision == 3
    engine.settle(1.05)
    assert engine.snapshot().revision == 3
    assert engine.settle_at is not None
    engine.settle(engine.settle_at)
    assert engine.snapshot().revision == 4
    assert engine.settle_at is None


def test_half_a_revision_waits_for_the_next_point() -> None:
    engine = ready()
    feed(engine, apply("a", 4))
    feed(engine, Disconnected(Cause.ERROR, 0.0))
    assert engine.settle_at is None
    feed(engine, Resumed(point(3, latest=4)), apply("b", 4))
    assert engine.settle_at is None
    assert engine.snapshot().revision == 3
    assert engine.status.stale
    feed(engine, Bookmark(point(4)))
    assert engine.snapshot().revision == 4
    assert len(engine.snapshot()) == 2
    assert not engine.status.stale


def test_a_snapshot_does_not_change() -> None:
    engine = ready()
    before = engine.snapshot()
    feed(engine, apply("b", 4), Bookmark(point(4)))
    assert list(before) == [("default", "a")]
    assert engine.snapshot() is engine.snapshot()
    assert list(engine.snapshot()) == [("default", "a"), ("default", "b")]


def test_the_revision_goes_back_only_with_a_whole_state() -> None:
    engine = ready()
    feed(engine, Bookmark(point(2)))
    assert engine.status.revision == 3
    feed(engine, InitBegin(), InitDone(point(1)))
    assert engine.status.revision == 1


def test_a_wrong_copy_asks_for_a_restart() -> None:
    engine = ready()
    assert engine.take(ManifestBegin(), 0.0)
    assert not engine.take(Unchanged(resource("b", 2)), 0.0)


def test_a_stopped_reflector_can_be_read() -> None:
    engine = ready()
    queue = engine.subscribe()
    engine.stop(WatchRefused(error("PERMISSION_DENIED")), 1.0)
    assert engine.status.stopped
    assert engine.status.stale
    assert len(engine.snapshot()) == 1
    assert told(queue) == [("a", None, 1), "synced"]
    assert queue.closed
    assert engine.stopped_error().code.name == "PERMISSION_DENIED"


def test_a_slow_subscriber_is_told_the_newest_state_of_each_key() -> None:
    engine = ready()
    queue = engine.subscribe()
    assert told(queue) == [("a", None, 1), "synced"]
    for revision in range(4, 9):
        feed(engine, apply("a", revision), Bookmark(point(revision)))
    assert len(queue) == 1
    assert told(queue) == [("a", 1, 8)]


def test_synced_comes_after_the_first_state_and_before_what_follows() -> None:
    engine = Engine(bytes, 0.0)
    queue = engine.subscribe()
    feed(engine, InitBegin(), InitApply(resource("a", 1)), InitDone(point(3)))
    feed(engine, apply("b", 4), Bookmark(point(4)))
    feed(engine, apply("a", 5), Bookmark(point(5)))
    assert told(queue) == [("a", None, 5), "synced", ("b", None, 4)]
