"""From events to snapshots: what both reflectors do, without threads, tasks or waiting."""

from __future__ import annotations

import logging
import weakref
from contextlib import nullcontext
from dataclasses import replace
from typing import Callable, ContextManager, Generic, Optional, Tuple

import grpc

from listwatch.errors import ListwatchError, ReflectorStopped, WatchEnded
from listwatch.events import (
    POINTS,
    Disconnected,
    Event,
    InitBegin,
    InitDone,
    ManifestBegin,
    NetBegin,
    Point,
    Resumed,
)
from listwatch.reflection.copy import Applied, Copy, KeyChange
from listwatch.reflection.notices import NoticeQueue
from listwatch.reflection.objects import Object, ObjectKey, T
from listwatch.reflection.snapshot import Snapshot
from listwatch.reflection.status import Connection, Status

_log = logging.getLogger("listwatch")

SETTLE = 0.1
"""How long changes wait for the bookmark that completes their revision, in seconds. Listwatch's
servers send it with them; one that does not must not keep changes back until the next interval
ends."""


class Engine(Generic[T]):
    """Holds the copy, shows it and tells subscribers.

    Its owner sees to it that one thread at a time lets events in. What readers see changes only
    under ``lock``, which is not held while objects are decoded.
    """

    def __init__(
        self,
        decode: Callable[[bytes], T],
        now: float,
        lock: ContextManager[object] = nullcontext(),
    ) -> None:
        self._lock = lock
        self._copy = Copy(decode)
        self._queues: weakref.WeakSet[NoticeQueue[T]] = weakref.WeakSet()
        self._revision = 0
        self._resume_token: Optional[str] = None
        # What is published; and the snapshot of it, if anyone has asked for one.
        self._shown: Tuple[int, Optional[str]] = (0, None)
        self._snapshot: Optional[Snapshot[T]] = None
        # The stream broke while changes waited for their bookmark: they may be half of a
        # revision, of which the next stream tells the other half.
        self._torn = False
        # What a resumed stream has to reach before the copy is in step again.
        self._target: Optional[int] = None
        self.settle_at: Optional[float] = None
        """When to call :meth:`settle`; None: not at all."""
        self.status = Status(stale_since=now)
        """How it is doing."""

    def get(self, key: ObjectKey) -> Optional[Object[T]]:
        """One object of the published state. Needs no lock."""
        held = self._copy.published.get(key)
        return held.content if held is not None and isinstance(held.content, Object) else None

    def snapshot(self) -> Snapshot[T]:
        """The published state; to be called under the lock.

        It is copied once for each state that someone asks for.
        """
        if self._snapshot is None:
            self._snapshot = Snapshot(self._copy.published, *self._shown)
        return self._snapshot

    def subscribe(self) -> NoticeQueue[T]:
        """A queue that begins with every object that is there. It, too, is used under the lock."""
        queue: NoticeQueue[T] = NoticeQueue()
        everything = sorted(self._copy.published.items(), key=lambda item: item[0])
        visible = ((key, held.visible) for key, held in everything)
        queue.push(KeyChange(key, None, each) for key, each in visible if each is not None)
        if self.status.ready:
            queue.mark_synced()
        queue.closed = self.status.stopped
        self._queues.add(queue)
        return queue

    def take(self, event: Event, now: float) -> bool:
        """Takes an event. False: the copy is wrong, and the watch has to be restarted."""
        if isinstance(event, (InitBegin, NetBegin, ManifestBegin)):
            # Before it in the same response are whole revisions.
            if not self._torn:
                self._publish()
            self._behind(Connection.SYNCING, now)
        elif isinstance(event, Disconnected):
            self._torn = self._copy.has_changes
            self._target = None
            self._behind(Connection.DISCONNECTED, now)
        applied = self._copy.apply(event)
        if applied is Applied.CONTRADICTION:
            _log.warning("the server names objects as unchanged that are not held: starting over")
            return False
        if isinstance(event, POINTS):
            if isinstance(event, Resumed):
                self._target = max(event.point.latest_revision, event.point.revision)
            else:
                self._torn = False
            self._reach(event.point, applied is Applied.SWAPPED, isinstance(event, InitDone))
        return True

    def end_response(self, now: float) -> None:
        """All of a response has been taken. Changes without a bookmark wait for it a moment."""
        if self.status.connection is not Connection.DISCONNECTED:
            self.status = replace(self.status, last_response=now)
        if not self._copy.has_changes or self._torn:
            self.settle_at = None
        elif self.settle_at is None:
            self.settle_at = now + SETTLE

    def settle(self, now: float) -> None:
        """Shows changes that have waited long enough."""
        if self.settle_at is not None and now >= self.settle_at:
            self.settle_at = None
            self._publish()

    def stop(self, error: Optional[WatchEnded], now: float) -> None:
        """The watch has ended, or is closed if there is no error."""
        if self.status.stopped:
            return
        if error is not None:
            _log.warning("reflector stopped: %s", error)
        self.settle_at = None
        self._behind(Connection.STOPPED, now)
        self.status = replace(self.status, stopped_by=error)
        with self._lock:
            for queue in self._queues:
                queue.closed = True

    def stopped_error(self) -> ReflectorStopped:
        """What a wait for a stopped reflector fails with."""
        closed = ListwatchError("the reflector is closed", code=grpc.StatusCode.CANCELLED)
        return ReflectorStopped(self.status.stopped_by or closed)

    def _reach(self, point: Point, swapped: bool, initial: bool) -> None:
        """Everything up to the point is in the copy."""
        self._resume_token = point.resume_token or self._resume_token
        # Back only with a whole new state, which may be of another store.
        self._revision = point.revision if swapped else max(self._revision, point.revision)
        if not self._torn:
            self._publish()
        in_step = swapped or self._target is None or self._revision >= self._target
        newly_ready = in_step and not self.status.ready
        if in_step:
            self._target = None
        self.status = replace(
            self.status,
            connection=Connection.LIVE,
            latest_revision=max(point.latest_revision, point.revision),
            initial_states=self.status.initial_states + initial,
            stale_since=None if in_step else self.status.stale_since,
            ready=self.status.ready or in_step,
        )
        if newly_ready:
            with self._lock:
                for queue in self._queues:
                    queue.mark_synced()

    def _behind(self, connection: Connection, now: float) -> None:
        stale_since = now if self.status.stale_since is None else self.status.stale_since
        self.status = replace(self.status, connection=connection, stale_since=stale_since)

    def _publish(self) -> None:
        """Lets readers see the current state."""
        if not self._copy.has_changes and self._shown == (self._revision, self._resume_token):
            return
        # Without a bookmark, the changes themselves say how far the state is.
        self._revision = max(self._revision, self._copy.newest_revision)
        with self._lock:
            changes = self._copy.publish()
            self._shown = (self._revision, self._resume_token)
            self._snapshot = None
            for queue in self._queues:
                queue.push(changes)
        self.status = replace(
            self.status,
            revision=self._revision,
            latest_revision=max(self.status.latest_revision, self._revision),
        )
