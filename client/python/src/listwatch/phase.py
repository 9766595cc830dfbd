"""From the responses of one stream to events."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import List, Optional, Set, Tuple

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
    Point,
    Resumed,
    Unchanged,
)


class Phase(enum.Enum):
    """Where a stream is."""

    OPENED_INITIAL = enum.auto()
    """The first response is outstanding; the request asked for the initial state."""
    OPENED_RESUMING = enum.auto()
    """The first response is outstanding; it says which of the others follows."""
    INITIAL = enum.auto()
    """Between INITIAL_STATE_BEGIN and INITIAL_STATE_END."""
    NET = enum.auto()
    """Between NET_BEGIN and INITIAL_STATE_END."""
    MANIFEST = enum.auto()
    """Between MANIFEST_BEGIN and INITIAL_STATE_END."""
    LIVE = enum.auto()
    """Every change as it comes."""

    @property
    def is_opened(self) -> bool:
        """Whether nothing has come yet."""
        return self in (Phase.OPENED_INITIAL, Phase.OPENED_RESUMING)

    @property
    def is_syncing(self) -> bool:
        """Whether the stream owes an end of what it has begun."""
        return self in (Phase.INITIAL, Phase.NET, Phase.MANIFEST)


class Told:
    """What was told after the last point. A stream that resumes from there tells it again."""

    def __init__(self) -> None:
        self._last_revision = 0
        # Those of the last revision: it may have been told by half.
        self._keys: Set[Tuple[str, str, str]] = set()

    def record(self, resource: v1.Resource) -> None:
        """Adds a change."""
        if resource.revision > self._last_revision:
            self._last_revision = resource.revision
            self._keys.clear()
        if resource.revision == self._last_revision:
            self._keys.add(_identity(resource))

    def absorb(self, earlier: Told) -> None:
        """Adds what an earlier stream told."""
        if earlier._last_revision > self._last_revision:
            self._last_revision = earlier._last_revision
            self._keys = set(earlier._keys)
        elif earlier._last_revision == self._last_revision:
            self._keys |= earlier._keys

    def clear(self) -> None:
        """Forgets everything: a new point is passed."""
        self._last_revision = 0
        self._keys.clear()

    def includes(self, resource: v1.Resource) -> bool:
        """Whether this change has been told."""
        return resource.revision < self._last_revision or (
            resource.revision == self._last_revision and _identity(resource) in self._keys
        )


def _identity(resource: v1.Resource) -> Tuple[str, str, str]:
    return (resource.key.collection, resource.key.namespace, resource.key.name)


@dataclass
class Translated:
    """What a response meant."""

    phase: Phase
    """What the stream is in after it."""
    events: List[Event] = field(default_factory=list)
    going_away: bool = False


def translate(phase: Phase, response: v1.WatchResponse, already_told: Told) -> Translated:
    """Translates a response to a stream in ``phase``.

    Raises:
        ProtocolBreach: The response cannot come in this phase.
    """
    if phase.is_opened and response.events:
        raise ProtocolBreach("events before the first bookmark")
    translated = Translated(phase)
    for raw in response.events:
        event = _translate_event(phase, raw)
        if event is None:
            continue
        if phase is Phase.LIVE and isinstance(event, (Apply, Delete)):
            if already_told.includes(event.object):
                continue
        translated.events.append(event)
    if response.HasField("bookmark"):
        translated.phase, bookmark = _take_bookmark(phase, response.bookmark)
        if bookmark is not None:
            translated.events.append(bookmark)
        translated.going_away = response.bookmark.kind == v1.BOOKMARK_KIND_GOING_AWAY
    return translated


def _take_bookmark(phase: Phase, bookmark: v1.Bookmark) -> Tuple[Phase, Optional[Event]]:
    kind = bookmark.kind
    if kind == v1.BOOKMARK_KIND_INITIAL_STATE_BEGIN:
        return Phase.INITIAL, InitBegin()
    if kind == v1.BOOKMARK_KIND_NET_BEGIN:
        return Phase.NET, NetBegin()
    if kind == v1.BOOKMARK_KIND_MANIFEST_BEGIN:
        return Phase.MANIFEST, ManifestBegin()
    if phase.is_opened and kind == v1.BOOKMARK_KIND_GOING_AWAY:
        # Not even its first word: the position stays what it was.
        return phase, None
    if phase is Phase.OPENED_INITIAL:
        raise ProtocolBreach("an initial state without its beginning")
    point = Point(
        revision=bookmark.revision,
        resume_token=bookmark.resume_token,
        latest_revision=bookmark.latest_revision,
        coalesced=bookmark.coalesced_count,
    )
    if phase is Phase.OPENED_RESUMING:
        if kind == v1.BOOKMARK_KIND_INITIAL_STATE_END:
            raise ProtocolBreach("the end of what never began")
        return Phase.LIVE, Resumed(point)
    if phase is Phase.LIVE:
        if kind == v1.BOOKMARK_KIND_INITIAL_STATE_END:
            raise ProtocolBreach("the end of what never began")
        return phase, Bookmark(point)
    if kind == v1.BOOKMARK_KIND_INITIAL_STATE_END:
        return Phase.LIVE, InitDone(point) if phase is Phase.INITIAL else CaughtUp(point)
    # A sign of life. Its token would skip what is still owed, or, in a net difference, name a
    # point at which no consistent copy exists.
    return phase, None


_DELETE_CAUSES = {
    v1.DELETE_CAUSE_REQUEST: DeleteCause.REQUEST,
    v1.DELETE_CAUSE_EXPIRED: DeleteCause.EXPIRED,
    v1.DELETE_CAUSE_UNSELECTED: DeleteCause.UNSELECTED,
}

_CHANGES = {
    v1.EVENT_TYPE_ADDED: Change.ADDED,
    v1.EVENT_TYPE_UPSERTED: Change.UPSERTED,
    v1.EVENT_TYPE_EXISTING: Change.UPSERTED,
}


def _translate_event(phase: Phase, event: v1.WatchEvent) -> Optional[Event]:
    resource = event.resource
    if not event.HasField("resource") or not resource.HasField("key"):
        # Of a newer server: nothing that this client could act on.
        return None
    previous = event.previous if event.HasField("previous") else None
    if event.type == v1.EVENT_TYPE_DELETED:
        cause = _DELETE_CAUSES.get(event.delete_cause, DeleteCause.UNSPECIFIED)
        return Delete(resource, cause, previous)
    if event.type == v1.EVENT_TYPE_UNCHANGED:
        return Unchanged(resource)
    if phase is Phase.INITIAL:
        return InitApply(resource)
    # The API says that an unknown type means MODIFIED.
    return Apply(resource, _CHANGES.get(event.type, Change.MODIFIED), previous)
