"""A watch that goes on by itself, for threads."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Callable, Iterator, Optional, Protocol, Type

import grpc

from listwatch import v1
from listwatch.errors import error_of
from listwatch.events import Cause, Event
from listwatch.machine import Action, End, Give, Open, Read, Wait, WatchMachine
from listwatch.options import WatchOptions
from listwatch.watchdog import Watchdog


class Call(Protocol):
    """A stream of responses: what is used of gRPC's calls."""

    def __next__(self) -> v1.WatchResponse:
        """Waits for the next response."""

    def cancel(self) -> object:
        """Ends the call; may be called from any thread."""


OpenStream = Callable[[v1.WatchRequest], Call]
"""Sends a request and returns the call, from which responses are read."""


class Watcher(Iterator[Event]):
    """An iterator of :data:`~listwatch.events.Event` that reconnects, resumes and starts over.

    Made by :meth:`listwatch.Client.watch`. It ends when it is closed, or by raising
    :class:`~listwatch.errors.WatchRefused` or :class:`~listwatch.errors.WatchExpired`.

    Nothing is read ahead: while no one asks for an event, the transport's flow control holds
    the server back, and the server's silence is not counted. To be iterated by one thread;
    :meth:`close` may be called from any.
    """

    def __init__(
        self,
        open_stream: OpenStream,
        watchdog: Watchdog,
        selector: v1.Selector,
        options: WatchOptions,
    ) -> None:
        self._open_stream = open_stream
        self._machine = WatchMachine(selector, options)
        self._closed = threading.Event()
        # Guards `_call` against `close` from another thread.
        self._lock = threading.Lock()
        self._call: Optional[Call] = None
        # Why the watchdog cancelled the call, once it has.
        self._expired: Optional[Cause] = None
        self._patience = Cause.SILENT
        self._guard = watchdog.guard(self._expire)

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

        For when the copy has turned out not to be what the server takes it for. To be called by
        the thread that iterates.
        """
        self._machine.restart(time.monotonic())

    def close(self) -> None:
        """Cancels the stream; who waits for an event finds the iteration ended."""
        self._closed.set()
        self._cancel()
        self._guard.close()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __iter__(self) -> Watcher:
        return self

    def __next__(self) -> Event:
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
                self._perform(action)
        raise StopIteration

    def _perform(self, action: Action) -> None:
        if isinstance(action, Wait):
            if not self._closed.wait(max(action.until - time.monotonic(), 0.0)):
                self._machine.waited()
        elif isinstance(action, Open):
            with self._lock:
                if not self._closed.is_set():
                    self._expired = None
                    self._call = self._open_stream(action.request)
                    self._machine.opened(time.monotonic())
        elif isinstance(action, Read):
            self._read(action)

    def _read(self, action: Read) -> None:
        call = self._call
        if call is None:
            return
        self._patience = action.cause
        self._guard.arm(time.monotonic() + action.patience)
        try:
            response = next(call)
        except StopIteration:
            self._machine.lost(self._expired or Cause.ENDED, time.monotonic())
        except grpc.RpcError as error:
            now = time.monotonic()
            if self._closed.is_set():
                return
            if self._expired is not None:
                self._machine.lost(self._expired, now)
            else:
                self._machine.failed(error_of(error), now)
        except BaseException:
            # Such as KeyboardInterrupt: whoever goes on asking afterwards reads on.
            self._machine.gave_up(time.monotonic())
            raise
        else:
            self._machine.received(response, time.monotonic())
        finally:
            self._guard.disarm()

    def _expire(self) -> None:
        with self._lock:
            call, self._expired = self._call, self._patience
        if call is not None:
            call.cancel()

    def _cancel(self) -> None:
        with self._lock:
            call, self._call = self._call, None
        if call is not None:
            call.cancel()
