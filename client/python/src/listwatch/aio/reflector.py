"""A copy of a collection that keeps itself in step with the server, for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
import weakref
from dataclasses import replace
from types import TracebackType
from typing import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generic,
    Iterator,
    Mapping,
    Optional,
    Tuple,
    Type,
)

from listwatch import v1
from listwatch.aio.watcher import OpenStream, Watcher
from listwatch.errors import ListwatchError, WaitTimeout, WatchEnded
from listwatch.events import Event
from listwatch.options import InitialState, OnExpired, WatchOptions
from listwatch.reflection.engine import Engine
from listwatch.reflection.notices import Notice, NoticeQueue
from listwatch.reflection.objects import Object, ObjectKey, T
from listwatch.reflection.snapshot import Snapshot
from listwatch.reflection.status import Status

_log = logging.getLogger("listwatch")


class Reflector(Mapping[ObjectKey, Object[T]], Generic[T]):
    """A copy that a task keeps in step. Made by :meth:`listwatch.aio.Client.reflector`.

    As a mapping it shows its newest state; for several objects that fit together take a
    :meth:`snapshot`. It goes on serving while the stream is down, and after it has stopped. To be
    used on the event loop on which it was made.
    """

    def __init__(
        self,
        open_stream: OpenStream,
        selector: v1.Selector,
        options: WatchOptions,
        decode: Callable[[bytes], T],
    ) -> None:
        options = replace(options, start=InitialState(), on_expired=OnExpired.START_OVER)
        self._shared: _Shared[T] = _Shared(decode)
        self._watcher = Watcher(open_stream, selector, options)
        self._task = asyncio.ensure_future(_run(self._shared, self._watcher))
        # A reflector that is dropped without being closed ends too.
        weakref.finalize(self, self._task.cancel).atexit = False

    def close(self) -> None:
        """Stops the reflector. What it held can still be read, and is stale."""
        self._watcher.close()
        self._shared.stop(None)

    async def __aenter__(self) -> Reflector[T]:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()
        await self._task

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
        return self._shared.engine.snapshot()

    @property
    def revision(self) -> int:
        """The store revision that is shown; 0 before the first state came."""
        return self.status.revision

    @property
    def status(self) -> Status:
        """How the reflector is doing."""
        return self._shared.engine.status

    async def wait_until_ready(self, timeout: Optional[float] = None) -> Snapshot[T]:
        """Waits until the copy has been in step with the server for the first time.

        Args:
            timeout: Seconds; None: as long as it takes.

        Raises:
            WaitTimeout: That takes longer.
            ReflectorStopped: The reflector has ended.
        """
        return await self._shared.wait(lambda status: status.ready, timeout)

    async def wait_for_revision(
        self, revision: int, timeout: Optional[float] = None
    ) -> Snapshot[T]:
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
        return await self._shared.wait(lambda status: status.revision >= revision, timeout)

    def subscribe(self) -> Subscription[T]:
        """Tells of every object that is there and then of every change."""
        return Subscription(self._shared, self._shared.engine.subscribe())

    def on_change(self, handler: Handler[T]) -> Subscription[T]:
        """Calls ``handler``, which may be a coroutine function, for each notice, one after the
        other, in a task of its own.

        What it raises is logged, and the next notice follows. Closing what is returned ends it.
        """
        subscription = self.subscribe()
        subscription._task = asyncio.ensure_future(_handle(subscription, handler))
        return subscription


Handler = Callable[[Notice[T]], Optional[Awaitable[None]]]
"""What is called for each notice."""


class Subscription(AsyncIterator[Notice[T]], Generic[T]):
    """An asynchronous iterator of :data:`~listwatch.reflection.notices.Notice` that waits for the
    next one, and ends when all has been told and the reflector has stopped, or when it is closed.

    One that is read slowly holds nothing up: it is told the newest state of each key.
    """

    def __init__(self, shared: _Shared[T], queue: NoticeQueue[T]) -> None:
        self._shared = shared
        self._queue = queue
        self._closed = False
        # The loop holds tasks only weakly.
        self._task: Optional[asyncio.Task[None]] = None

    def __aiter__(self) -> Subscription[T]:
        return self

    async def __anext__(self) -> Notice[T]:
        while not self._closed:
            changed = self._shared.changed
            notice = self._queue.pop()
            if notice is not None:
                return notice
            if self._queue.closed:
                break
            await changed.wait()
        raise StopAsyncIteration

    def close(self) -> None:
        """Ends it."""
        self._closed = True
        self._shared.wake()


class _Shared(Generic[T]):
    """The engine, and what is set when it changes. Apart from the reflector, so that its task does
    not keep it alive."""

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        self.engine = Engine(decode, time.monotonic())
        self.changed = asyncio.Event()
        """Of the next change; another one after it."""
        self._settling: Optional[asyncio.TimerHandle] = None

    def take(self, event: Event, watcher: Watcher) -> None:
        if not self.engine.take(event, time.monotonic()):
            watcher.restart()
        if watcher.response_is_done:
            now = time.monotonic()
            self.engine.end_response(now)
            self._settle_later(now)
            self.wake()

    def stop(self, error: Optional[WatchEnded]) -> None:
        now = time.monotonic()
        self.engine.stop(error, now)
        self._settle_later(now)
        self.wake()

    async def wait(self, holds: Callable[[Status], bool], timeout: Optional[float]) -> Snapshot[T]:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not holds(self.engine.status):
            if self.engine.status.stopped:
                raise self.engine.stopped_error()
            left = None if deadline is None else deadline - time.monotonic()
            try:
                await asyncio.wait_for(self.changed.wait(), left)
            except asyncio.TimeoutError:
                raise WaitTimeout(f"not within {timeout} s: {self.engine.status}") from None
        return self.engine.snapshot()

    def wake(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def _settle_later(self, now: float) -> None:
        settle_at = self.engine.settle_at
        if settle_at is None:
            if self._settling is not None:
                self._settling.cancel()
            self._settling = None
        elif self._settling is None:
            loop = asyncio.get_running_loop()
            self._settling = loop.call_later(max(settle_at - now, 0.0), self._settle)

    def _settle(self) -> None:
        self._settling = None
        now = time.monotonic()
        self.engine.settle(now)
        # The loop's timer may be a little early.
        self._settle_later(now)
        self.wake()


async def _run(shared: _Shared[T], watcher: Watcher) -> None:
    ended: Optional[WatchEnded] = None
    try:
        async for event in watcher:
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


async def _handle(subscription: Subscription[T], handler: Handler[T]) -> None:
    async for notice in subscription:
        try:
            result = handler(notice)
            if inspect.isawaitable(result):
                await result
        except Exception:
            _log.exception("a handler failed")
