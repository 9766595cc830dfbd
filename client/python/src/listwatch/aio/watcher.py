"""A watch that goes on by itself, for asyncio."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import AsyncIterator, Callable, Optional, Type

import grpc.aio

from listwatch import v1
from listwatch.errors import error_of
from listwatch.events import Cause, Event
from listwatch.machine import Action, End, Give, Open, Read, Wait, WatchMachine
from listwatch.options import WatchOptions

Call = grpc.aio.UnaryStreamCall[v1.WatchRequest, v1.WatchResponse]

OpenStream = Callable[[v1.WatchRequest], Call]
"""Sends a request and returns the call, from which responses are read."""


class Watcher(AsyncIterator[Event]):
    """An asynchronous iterator of :data:`~listwatch.events.Event` that reconnects, resumes and
    starts over.

    Made by :meth:`listwatch.aio.Client.watch`. It ends when it is closed, or by raising
    :class:`~listwatch.errors.WatchRefused` or :class:`~listwatch.errors.WatchExpired`.

    Nothing is read ahead: while no one asks for an event, the transport's flow control holds the
    server back, and the server's silence is not counted. Waiting for an event can be cancelled
    (by ``asyncio.wait_for``, say), and no event is lost by that.
    """

    def __init__(
        self, open_stream: OpenStream, selector: v1.Selector, options: WatchOptions
    ) -> None:
        self._open_stream = open_stream
        self._machine = WatchMachine(selector, options)
        self._closed = asyncio.Event()
        self._call: Optional[Call] = None
        # A read that is under way outlives a consumer that stops waiting for it: cancelling it
        # would cancel the stream.
        self._reading: Optional[asyncio.Task[object]] = None

    @property
    def resume_token(self) -> Optional[str]:
        """The last point whose events have all been given out: where to go on after a restart of
        the program."""
        return self._machine.position

    @property
    def response_is_done(self) -> bool:
        """Whether every event of the last response has been given out. Events of one response
        belong together: publish a copy here, not between them."""
        return self._machine.response_is_done

    def restart(self) -> None:
        """Forgets the position and goes on with a new initial state, after backoff.

        For when the copy has turned out not to be what the server takes it for.
        """
        self._machine.restart(time.monotonic())

    def close(self) -> None:
        """Cancels the stream; who waits for an event finds the iteration ended."""
        self._closed.set()
        self._cancel()

    async def __aenter__(self) -> Watcher:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Without this, the task of a read that is under way keeps the stream open.
        call, self._call = getattr(self, "_call", None), None
        if call is not None:
            call.cancel()

    def __aiter__(self) -> Watcher:
        return self

    async def __anext__(self) -> Event:
        """Waits for the next event.

        Raises:
            WatchRefused: The server refuses the watch, or no position leads on.
            WatchExpired: The history is gone and the options say ``OnExpired.FAIL``.
        """
        while not self._closed.is_set():
            if not self._machine.wants_stream:
                self._cancel()
            action = self._machine.next_action(time.monotonic())
            if isinstance(action, Give):
                return action.event
            if isinstance(action, End):
                self.close()
                if action.error is not None:
                    raise action.error
            else:
                await self._perform(action)
        raise StopAsyncIteration

    async def _perform(self, action: Action) -> None:
        if isinstance(action, Wait):
            try:
                left = max(action.until - time.monotonic(), 0.0)
                await asyncio.wait_for(self._closed.wait(), left)
            except asyncio.TimeoutError:
                self._machine.waited()
        elif isinstance(action, Open):
            self._call = self._open_stream(action.request)
            self._machine.opened(time.monotonic())
        elif isinstance(action, Read):
            await self._read(action)

    async def _read(self, action: Read) -> None:
        call = self._call
        if call is None:
            return
        if self._reading is None:
            self._reading = asyncio.ensure_future(_read_from(call))
        reading = self._reading
        try:
            done, _ = await asyncio.wait({reading}, timeout=action.patience)
        except asyncio.CancelledError:
            self._machine.gave_up(time.monotonic())
            raise
        if self._closed.is_set():
            return
        now = time.monotonic()
        if not done:
            self._machine.lost(action.cause, now)
            return
        self._reading = None
        outcome = reading.result()
        if isinstance(outcome, v1.WatchResponse):
            self._machine.received(outcome, now)
        elif isinstance(outcome, grpc.aio.AioRpcError):
            self._machine.failed(error_of(outcome), now)
        else:
            self._machine.lost(Cause.ENDED, now)

    def _cancel(self) -> None:
        call, self._call, self._reading = self._call, None, None
        if call is not None:
            call.cancel()


async def _read_from(call: Call) -> object:
    """The next response, or what the stream ended with; raises nothing, since no one may be there
    to catch it."""
    try:
        return await call.read()
    except grpc.aio.AioRpcError as error:
        return error
    except asyncio.CancelledError:
        return None
