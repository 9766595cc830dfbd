"""A copy of a collection that keeps itself in step with the server, for threads."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from dataclasses import replace
from types import TracebackType
from typing import Callable, Generic, Iterator, Mapping, Optional, Tuple, Type

from listwatch import v1
from listwatch.errors import ListwatchError, WaitTimeout, WatchEnded
from listwatch.events import Event
from listwatch.options import InitialState, OnExpired, WatchOptions
from listwatch.reflection.engine import Engine
from listwatch.reflection.notices import Notice, NoticeQueue
from listwatch.reflection.objects import Object, ObjectKey, T
from listwatch.reflection.snapshot import Snapshot
from listwatch.reflection.status import Status
from listwatch.watchdog import Watchdog
from listwatch.watcher import OpenStream, Watcher

_log = logging.getLogger("listwatch")


class Reflector(Mapping[ObjectKey, Object[T]], Generic[T]):
    """A copy that a daemon thread keeps in step. Made by :meth:`listwatch.Client.reflector`.

    As a mapping it shows its newest state; for several objects that fit together take a
    :meth:`snapshot`. It goes on serving while the stream is down, and after it has stopped. All of
    its methods may be called from any thread, and none but the ``wait_…`` ones blocks.
    """

    def __init__(
        self,
        open_stream: OpenStream,
        watchdog: Watchdog,
        selector: v1.Selector,
        options: WatchOptions,
        decode: Callable[[bytes], T],
    ) -> None:
        options = replace(options, start=InitialState(), on_expired=OnExpired.START_OVER)
        self._shared: _Shared[T] = _Shared(watchdog, decode)
        self._watcher = Watcher(open_stream, watchdog, selector, options)
        # A reflector that is dropped without being closed ends too.
        self._finalizer = weakref.finalize(self, self._watcher.close)
        threading.Thread(
            target=_run,
            args=(self._shared, self._watcher),
            name=f"listwatch-reflector-{selector.collection}",
            daemon=True,
        ).start()

    def close(self) -> None:
        """Stops the reflector. What it held can still be read, and is stale."""
        self._watcher.close()
        self._shared.stop(None)

    def __enter__(self) -> Reflector[T]:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __getitem__(self, key: Tuple[str, str]) -> Object[T]:
        found = self._shared.engine.get(ObjectKey(*key))
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self.snapshot())

    def __len__(self) -> int:
        return len(self.snapshot())

    # Two reflectors are never the same for what they happen to hold.

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def snapshot(self) -> Snapshot[T]:
        """The newest consistent state. Costs a copy of the mapping for each state that is asked
        for."""
        with self._shared.changed:
            return self._shared.engine.snapshot()

    @property
    def revision(self) -> int:
        """The store revision that is shown; 0 before the first state came."""
        return self.status.revision

    @property
    def status(self) -> Status:
        """How the reflector is doing."""
        return self._shared.engine.status

    def wait_until_ready(self, timeout: Optional[float] = None) -> Snapshot[T]:
        """Waits until the copy has been in step with the server for the first time.

        Args:
            timeout: Seconds; None: as long as it takes.

        Raises:
            WaitTimeout: That takes longer.
            ReflectorStopped: The reflector has ended.
        """
        return self._shared.wait(lambda status: status.ready, timeout)

    def wait_for_revision(self, revision: int, timeout: Optional[float] = None) -> Snapshot[T]:
        """Waits until at least this revision is shown: after a write, that of the write's answer,
        to read what was written. If the selector does not match what was written, only the next
        bookmark can tell, so allow for a bookmark interval.

        Args:
            revision: Of the store.
            timeout: Seconds; None: as long as it takes.

        Raises:
            WaitTimeout: That takes longer.
            ReflectorStopped: The reflector has ended.
        """
        return self._shared.wait(lambda status: status.revision >= revision, timeout)

    def subscribe(self) -> Subscription[T]:
        """Tells of every object that is there and then of every change."""
        with self._shared.changed:
            return Subscription(self._shared, self._shared.engine.subscribe())

    def on_change(self, handler: Callable[[Notice[T]], None]) -> Subscription[T]:
        """Calls ``handler`` for each notice, one after the other, on a daemon thread of its own.

        What it raises is logged, and the next notice follows. Closing what is returned ends it.
        """
        subscription = self.subscribe()
        threading.Thread(
            target=_handle, args=(subscription, handler), name="listwatch-handler", daemon=True
        ).start()
        return subscription


class Subscription(Iterator[Notice[T]], Generic[T]):
    """An iterator of :data:`~listwatch.reflection.notices.Notice` that waits for the next one, and
    ends when all has been told and the reflector has stopped, or when it is closed.

    One that is read slowly holds nothing up: it is told the newest state of each key.
    """

    def __init__(self, shared: _Shared[T], queue: NoticeQueue[T]) -> None:
        self._shared = shared
        self._queue = queue
        self._closed = False

    def __iter__(self) -> Subscription[T]:
        return self

    def __next__(self) -> Notice[T]:
        with self._shared.changed:
            while not self._closed:
                notice = self._queue.pop()
                if notice is not None:
                    return notice
                if self._queue.closed:
                    break
                self._shared.changed.wait()
        raise StopIteration

    def close(self) -> None:
        """Ends it; may be called from any thread."""
        with self._shared.changed:
            self._closed = True
            self._shared.changed.notify_all()


class _Shared(Generic[T]):
    """The engine, and what guards it. Apart from the reflector, so that its thread does not keep
    it alive."""

    def __init__(self, watchdog: Watchdog, decode: Callable[[bytes], T]) -> None:
        # What readers see changes under it, and whoever waits for that waits on it.
        self.changed = threading.Condition()
        # Held by whoever lets events or the time in.
        self._acting = threading.RLock()
        self.engine = Engine(decode, time.monotonic(), self.changed)
        self._guard = watchdog.guard(self._settle)

    def take(self, event: Event, watcher: Watcher) -> None:
        with self._acting:
            if not self.engine.take(event, time.monotonic()):
                watcher.restart()
            if not watcher.response_is_done:
                return
            self.engine.end_response(time.monotonic())
            if self.engine.settle_at is None:
                self._guard.disarm()
            else:
                self._guard.arm(self.engine.settle_at)
        self._wake()

    def stop(self, error: Optional[WatchEnded]) -> None:
        with self._acting:
            self.engine.stop(error, time.monotonic())
        self._guard.close()
        self._wake()

    def wait(self, holds: Callable[[Status], bool], timeout: Optional[float]) -> Snapshot[T]:
        with self.changed:
            over = self.changed.wait_for(
                lambda: holds(self.engine.status) or self.engine.status.stopped, timeout
            )
            if holds(self.engine.status):
                return self.engine.snapshot()
            if over:
                raise self.engine.stopped_error()
            raise WaitTimeout(f"not within {timeout} s: {self.engine.status}")

    def _settle(self) -> None:
        with self._acting:
            self.engine.settle(time.monotonic())
        self._wake()

    def _wake(self) -> None:
        with self.changed:
            self.changed.notify_all()


def _run(shared: _Shared[T], watcher: Watcher) -> None:
    ended: Optional[WatchEnded] = None
    try:
        for event in watcher:
            shared.take(event, watcher)
    except WatchEnded as error:
        ended = error
    except Exception as error:
        # A fault of this package: readers and waiters must learn of it.
        _log.exception("reflector failed")
        ended = WatchEnded(ListwatchError(f"the reflector failed: {error}"))
    finally:
        watcher.close()
        shared.stop(ended)


def _handle(subscription: Subscription[T], handler: Callable[[Notice[T]], None]) -> None:
    for notice in subscription:
        try:
            handler(notice)
        except Exception:
            _log.exception("a handler failed")
