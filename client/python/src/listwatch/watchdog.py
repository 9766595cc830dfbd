"""Deadlines for calls that block."""

from __future__ import annotations

import math
import threading
import time
import weakref
from typing import Callable, Optional

_ROUND = 60.0
"""How long the thread of a client without watches stays, in seconds."""


class Guard:
    """One deadline at a time, and what to do when it passes. Made by :meth:`Watchdog.guard`."""

    def __init__(self, watchdog: Watchdog, on_expiry: Callable[[], None]) -> None:
        """``on_expiry`` is a bound method."""
        self._watchdog = watchdog
        # Weakly: a watch that is dropped without being closed ends, whatever its deadlines.
        self._on_expiry = weakref.WeakMethod(on_expiry)
        self._deadline = math.inf

    def arm(self, deadline: float) -> None:
        """Sets the deadline, in seconds of ``time.monotonic()``, in place of any before."""
        self._watchdog._arm(self, deadline)

    def disarm(self) -> None:
        """Takes the deadline away. What it would have done may be under way."""
        # Without a word to the watchdog: it looks once too often instead.
        self._deadline = math.inf

    def _expire(self) -> None:
        self._deadline = math.inf
        on_expiry = self._on_expiry()
        if on_expiry is not None:
            on_expiry()

    def close(self) -> None:
        """Lets the watchdog forget this guard."""
        self._watchdog._forget(self)


class Watchdog:
    """A daemon thread for the deadlines of a client's watches: a read of a synchronous gRPC stream
    has no timeout of its own, so someone else has to cancel the call.

    The thread lives while there are guards. What guards do must not block.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._guards: weakref.WeakSet[Guard] = weakref.WeakSet()
        self._looks_at = -math.inf
        self._thread: Optional[threading.Thread] = None

    def guard(self, on_expiry: Callable[[], None]) -> Guard:
        """A new guard, without a deadline. ``on_expiry``, a bound method, is called on the
        watchdog's thread."""
        guard = Guard(self, on_expiry)
        with self._condition:
            self._guards.add(guard)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="listwatch-watchdog", daemon=True
                )
                self._thread.start()
        return guard

    def _arm(self, guard: Guard, deadline: float) -> None:
        with self._condition:
            guard._deadline = deadline
            # Most deadlines are later than the one that is waited for: nothing to wake.
            if deadline < self._looks_at:
                self._condition.notify()

    def _forget(self, guard: Guard) -> None:
        with self._condition:
            self._guards.discard(guard)
            if not self._guards:
                self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                if not self._guards:
                    self._thread = None
                    return
                now = time.monotonic()
                due = [guard for guard in self._guards if guard._deadline <= now]
                if not due:
                    deadlines = [guard._deadline for guard in self._guards]
                    self._looks_at = min(deadlines, default=now)
                    self._condition.wait(min(self._looks_at - now, _ROUND))
                    self._looks_at = -math.inf
            while due:
                due.pop()._expire()
