"""One subscriber's queue: for each key the newest state, however slow the subscriber is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Generic, Iterable, Optional, Tuple, Union

from listwatch.reflection.copy import KeyChange
from listwatch.reflection.objects import Object, ObjectKey, T


@dataclass(frozen=True)
class ObjectChanged(Generic[T]):
    """What became of an object.

    The notices of one key fit together: ``old`` is what this subscriber was told last. One that is
    slow misses versions in between, never the newest, and never the end of an object.
    """

    key: ObjectKey
    old: Optional[Object[T]]
    """None: the object is new to this subscriber."""
    new: Optional[Object[T]]
    """None: it is gone. Of another uid than ``old``: that one is gone and this one was created."""


@dataclass(frozen=True)
class Synced:
    """Everything that existed when the reflector was first in step has been told. Comes once."""


Notice = Union[ObjectChanged[T], Synced]
"""What a subscriber is told."""


class NoticeQueue(Generic[T]):
    """Bounded by the objects that the subscriber was told of and those that exist: each key is in
    it once, and one that came and went unseen leaves it. Locks nothing, waits for nothing."""

    def __init__(self) -> None:
        # With their places in line, oldest first: a key that changes often keeps its place.
        self._changes: Dict[ObjectKey, Tuple[int, KeyChange[T]]] = {}
        self._next_place = 0
        # The place before which everything is part of the first state.
        self._synced_at: Optional[int] = None
        self._synced_told = False
        self.closed = False
        """Nothing comes any more."""

    def __len__(self) -> int:
        """How many keys wait to be told."""
        return len(self._changes)

    def push(self, changes: Iterable[KeyChange[T]]) -> None:
        """Adds what became of keys."""
        for change in changes:
            key = change.key
            if key not in self._changes:
                self._changes[key] = (self._next_place, change)
                self._next_place += 1
                continue
            place, waiting = self._changes[key]
            if waiting.old is change.new:
                del self._changes[key]
            else:
                self._changes[key] = (place, KeyChange(key, waiting.old, change.new))

    def mark_synced(self) -> None:
        """What is in the queue now is the rest of the first state."""
        if self._synced_at is None:
            self._synced_at = self._next_place

    def pop(self) -> Optional[Notice[T]]:
        """The next notice, if there is one."""
        place, change = next(iter(self._changes.values()), (self._next_place, None))
        if self._synced_at is not None and not self._synced_told and place >= self._synced_at:
            self._synced_told = True
            return Synced()
        if change is None:
            return None
        del self._changes[change.key]
        return ObjectChanged(change.key, change.old, change.new)
