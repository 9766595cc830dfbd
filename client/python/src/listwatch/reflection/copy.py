"""The copy that events are applied to, before it is shown."""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass
from typing import Callable, Dict, Generic, List, Optional

from listwatch import v1
from listwatch.events import (
    Apply,
    CaughtUp,
    Delete,
    Disconnected,
    Event,
    InitApply,
    InitBegin,
    InitDone,
    ManifestBegin,
    NetBegin,
    Unchanged,
)
from listwatch.reflection.objects import (
    Held,
    Object,
    ObjectKey,
    T,
    Undecodable,
    key_of,
    object_of,
    version_of,
)

_log = logging.getLogger("listwatch")

Overlay = Dict[ObjectKey, Optional[Held[T]]]
"""What differs from something else; None where there is nothing any more."""


class Applied(enum.Enum):
    """What applying an event came to."""

    NOTHING = enum.auto()
    """Nothing that matters outside, or a change of the current state."""
    SWAPPED = enum.auto()
    """A stage is complete and has become the current state."""
    CONTRADICTION = enum.auto()
    """The server takes the copy for something that it is not: only a new initial state helps."""


class _StageKind(enum.Enum):
    INITIAL = enum.auto()
    """What was named so far; what is not named is gone."""
    NET = enum.auto()
    """What changed so far, over the current state."""
    MANIFEST = enum.auto()
    """What was named so far, changed or not."""


class _Stage(Generic[T]):
    """A state that is not consistent before it is complete. Thrown away if the stream breaks."""

    def __init__(self, kind: _StageKind) -> None:
        self.kind = kind
        self.contents: Overlay[T] = {}


@dataclass(frozen=True)
class KeyChange(Generic[T]):
    """What became of one key from one snapshot to the next."""

    key: ObjectKey
    old: Optional[Object[T]]
    new: Optional[Object[T]]


class Copy(Generic[T]):
    """What events are applied to. Knows nothing of time, streams or readers.

    The current state is the published one with the pending changes over it, so that a change
    costs the same however many objects there are.
    """

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        """Empty."""
        self._decode = decode
        self.published: Dict[ObjectKey, Held[T]] = {}
        """What readers see."""
        self._pending: Overlay[T] = {}
        self._stage: Optional[_Stage[T]] = None
        self.newest_revision = 0
        """Of single changes since the state was last replaced as a whole."""

    @property
    def has_changes(self) -> bool:
        """Whether there is something to publish."""
        return bool(self._pending)

    def publish(self) -> List[KeyChange[T]]:
        """Makes the current state the published one and says what became visible by that,
        ordered by key."""
        changes: List[KeyChange[T]] = []
        for key, new in sorted(self._pending.items(), key=lambda item: item[0]):
            old = self.published.get(key)
            if old is not None and new is not None and old.version == new.version:
                # It changed and changed back.
                continue
            before = old.visible if old is not None else None
            after = new.visible if new is not None else None
            if before is not after:
                changes.append(KeyChange(key, before, after))
            if new is None:
                self.published.pop(key, None)
            else:
                self.published[key] = new
        self._pending = {}
        return changes

    def apply(self, event: Event) -> Applied:
        """Applies an event."""
        if isinstance(event, (Apply, InitApply)):
            self._upsert(event.object)
        elif isinstance(event, Delete):
            self._delete(event.object)
        elif isinstance(event, Unchanged):
            return self._unchanged(event.object)
        elif isinstance(event, (InitDone, CaughtUp)):
            return self._swap()
        elif isinstance(event, InitBegin):
            self._stage = _Stage(_StageKind.INITIAL)
        elif isinstance(event, NetBegin):
            self._stage = _Stage(_StageKind.NET)
        elif isinstance(event, ManifestBegin):
            self._stage = _Stage(_StageKind.MANIFEST)
        elif isinstance(event, Disconnected):
            self._stage = None
        return Applied.NOTHING

    def _current(self, key: ObjectKey) -> Optional[Held[T]]:
        if key in self._pending:
            return self._pending[key]
        return self.published.get(key)

    def _in_stage(self, key: ObjectKey) -> Optional[Held[T]]:
        """What the state that is being worked on has."""
        stage = self._stage
        if stage is None:
            return self._current(key)
        if stage.kind is _StageKind.NET and key not in stage.contents:
            return self._current(key)
        return stage.contents.get(key)

    def _upsert(self, resource: v1.Resource) -> None:
        key = key_of(resource)
        stage = self._stage
        held = (
            self._in_stage(key)
            if stage is None or stage.kind is _StageKind.NET
            # These begin empty: what is held is in the state that they are to replace.
            else self._current(key)
        )
        # Unchanged objects stay the very same: nothing is decoded and no one is told.
        same = held is not None and held.version == version_of(resource)
        new = held if same else self._decoded(key, resource, held)
        if stage is not None:
            if not same or stage.kind is not _StageKind.NET:
                stage.contents[key] = new
        elif not same:
            self._pending[key] = new
            self.newest_revision = max(self.newest_revision, resource.revision)

    def _delete(self, resource: v1.Resource) -> None:
        key = key_of(resource)
        held = self._in_stage(key)
        if held is None:
            return
        if held.revision > resource.revision > 0:
            # The deletion of an earlier object of this name, told late.
            return
        if self._stage is not None:
            self._stage.contents[key] = None
        else:
            self._pending[key] = None
            self.newest_revision = max(self.newest_revision, resource.revision)

    def _unchanged(self, resource: v1.Resource) -> Applied:
        key = key_of(resource)
        held = self._current(key)
        if held is None or (held.uid, held.revision) != (resource.uid, resource.revision):
            return Applied.CONTRADICTION
        if self._stage is not None and self._stage.kind is _StageKind.MANIFEST:
            self._stage.contents[key] = held
        return Applied.NOTHING

    def _swap(self) -> Applied:
        stage, self._stage = self._stage, None
        if stage is None:
            return Applied.NOTHING
        if stage.kind is _StageKind.NET:
            self._pending.update(stage.contents)
        else:
            # Against what readers have: what is pending may be ahead of it.
            self._pending = {key: None for key in self.published if key not in stage.contents}
            for key, new in stage.contents.items():
                if self.published.get(key) is not new:
                    self._pending[key] = new
        self.newest_revision = 0
        return Applied.SWAPPED

    def _decoded(self, key: ObjectKey, resource: v1.Resource, held: Optional[Held[T]]) -> Held[T]:
        """A version that succeeds ``held``."""
        try:
            return Held(version_of(resource), object_of(resource, self._decode(resource.value)))
        except Exception as error:
            _log.warning("cannot decode %s at revision %d: %s", key, resource.revision, error)
            last = held.visible if held is not None else None
            if last is not None and last.uid != resource.uid:
                # Of another uid it is not the same object: that one has ended.
                last = None
            # A copy of its own: the message that it came in would keep all others in memory.
            own = v1.Resource.FromString(resource.SerializeToString())
            return Held(version_of(resource), Undecodable(key, own, error, last))
