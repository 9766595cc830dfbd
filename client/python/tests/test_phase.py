from __future__ import annotations

from typing import Tuple

import pytest

from listwatch import v1
from listwatch.errors import ProtocolBreach
from listwatch.events import (
    Apply,
    Bookmark,
    CaughtUp,
    Change,
    Delete,
    DeleteCause,
    Event,
    InitApply,
    InitBegin,
    InitDone,
    ManifestBegin,
    NetBegin,
    Resumed,
    Unchanged,
)
from listwatch.phase import Phase, Told, translate
from sent import event, point, resource, response


def one(phase: Phase, message: v1.WatchResponse) -> Tuple[Phase, Event]:
    translated = translate(phase, message, Told())
    (only,) = translated.events
    return translated.phase, only


@pytest.mark.parametrize(
    ("before", "kind", "after", "told"),
    [
        (Phase.OPENED_INITIAL, "INITIAL_STATE_BEGIN", Phase.INITIAL, InitBegin()),
        (Phase.OPENED_RESUMING, "NET_BEGIN", Phase.NET, NetBegin()),
        (Phase.LIVE, "MANIFEST_BEGIN", Phase.MANIFEST, ManifestBegin()),
        (Phase.INITIAL, "INITIAL_STATE_END", Phase.LIVE, InitDone(point(7))),
        (Phase.NET, "INITIAL_STATE_END", Phase.LIVE, CaughtUp(point(7))),
        (Phase.MANIFEST, "INITIAL_STATE_END", Phase.LIVE, CaughtUp(point(7))),
        (Phase.OPENED_RESUMING, "RESUMED", Phase.LIVE, Resumed(point(7))),
        (Phase.OPENED_RESUMING, "PROGRESS", Phase.LIVE, Resumed(point(7))),
        (Phase.LIVE, "UNSPECIFIED", Phase.LIVE, Bookmark(point(7))),
        (Phase.LIVE, "GOING_AWAY", Phase.LIVE, Bookmark(point(7))),
    ],
)
def test_bookmarks(before: Phase, kind: str, after: Phase, told: Event) -> None:
    assert one(before, response(kind, 7)) == (after, told)


@pytest.mark.parametrize("phase", [Phase.INITIAL, Phase.NET, Phase.MANIFEST])
def test_a_bookmark_within_a_beginning_is_a_sign_of_life_alone(phase: Phase) -> None:
    translated = translate(phase, response("PROGRESS", 7), Told())
    assert (translated.phase, translated.events) == (phase, [])


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        (Phase.OPENED_RESUMING, response("RESUMED", 7, events=[event("ADDED", "a", 1)])),
        (Phase.OPENED_INITIAL, response("RESUMED", 7)),
        (Phase.OPENED_INITIAL, response("INITIAL_STATE_END", 7)),
        (Phase.OPENED_RESUMING, response("INITIAL_STATE_END", 7)),
    ],
)
def test_breaches(phase: Phase, message: v1.WatchResponse) -> None:
    with pytest.raises(ProtocolBreach):
        translate(phase, message, Told())


@pytest.mark.parametrize("phase", [Phase.OPENED_INITIAL, Phase.OPENED_RESUMING])
def test_going_away_as_the_first_word_gives_no_point(phase: Phase) -> None:
    translated = translate(phase, response("GOING_AWAY", 7), Told())
    assert translated.going_away
    assert translated.events == []


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("ADDED", Change.ADDED),
        ("MODIFIED", Change.MODIFIED),
        ("UPSERTED", Change.UPSERTED),
        ("EXISTING", Change.UPSERTED),
        ("UNSPECIFIED", Change.MODIFIED),
    ],
)
def test_changes(kind: str, change: Change) -> None:
    told = one(Phase.LIVE, response(events=[event(kind, "a", 3)]))[1]
    assert told == Apply(resource("a", 3), change)


def test_a_type_of_a_newer_server_is_a_modification() -> None:
    raw = event("ADDED", "a", 3)
    raw.type = 99
    assert one(Phase.LIVE, response(events=[raw]))[1] == Apply(resource("a", 3), Change.MODIFIED)


def test_in_an_initial_state_everything_that_exists_is_part_of_it() -> None:
    told = one(Phase.INITIAL, response(events=[event("ADDED", "a", 3)]))[1]
    assert told == InitApply(resource("a", 3))


def test_deletions_have_a_cause() -> None:
    raw = event("DELETED", "a", 3)
    raw.delete_cause = v1.DELETE_CAUSE_EXPIRED
    told = one(Phase.NET, response(events=[raw]))[1]
    assert told == Delete(resource("a", 3), DeleteCause.EXPIRED)


def test_unchanged() -> None:
    told = one(Phase.MANIFEST, response(events=[event("UNCHANGED", "a", 3)]))[1]
    assert told == Unchanged(resource("a", 3))


def test_what_has_no_object_or_no_key_is_passed_over() -> None:
    nothing = v1.WatchEvent(type=v1.EVENT_TYPE_ADDED)
    nameless = v1.WatchEvent(type=v1.EVENT_TYPE_ADDED, resource=v1.Resource(revision=3))
    assert translate(Phase.LIVE, response(events=[nothing, nameless]), Told()).events == []


def test_nothing_is_told_twice() -> None:
    told = Told()
    told.record(resource("a", 4))
    told.record(resource("a", 5))
    raw = [event("MODIFIED", name, rev) for name, rev in [("b", 4), ("a", 5), ("b", 5), ("a", 6)]]
    events = translate(Phase.LIVE, response(events=raw), told).events
    assert [(e.object.key.name, e.object.revision) for e in events if isinstance(e, Apply)] == [
        ("b", 5),
        ("a", 6),
    ]


def test_what_two_streams_told_is_remembered_together() -> None:
    earlier, later = Told(), Told()
    earlier.record(resource("a", 5))
    later.record(resource("b", 5))
    later.absorb(earlier)
    assert later.includes(resource("a", 5))
    assert later.includes(resource("b", 5))
    assert not later.includes(resource("c", 5))
    later.clear()
    assert not later.includes(resource("a", 5))
