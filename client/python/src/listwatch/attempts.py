"""Unary calls: a deadline for all of it, and a few attempts within."""

from __future__ import annotations

import random
from typing import Optional

import grpc

from listwatch.backoff import Backoff, BackoffOptions, Randomness
from listwatch.errors import DeadlineExceeded, Exhausted, ListwatchError, Unavailable

MAX_ATTEMPTS = 4
"""The first included. What fails longer is the caller's decision."""

_BETWEEN_ATTEMPTS = BackoffOptions(initial=0.05, factor=2.0, max=1.0)


class Attempts:
    """Decides about the attempts of one call. Makes none itself and knows no clock.

    Right for reads, and for writes with a ``request_id``: the server gives the first answer again.
    """

    def __init__(self, timeout: float, now: float, randomness: Randomness = random.random) -> None:
        """Everything is to be over ``timeout`` seconds after ``now``."""
        self._timeout = timeout
        self._deadline = now + timeout
        self._backoff = Backoff(_BETWEEN_ATTEMPTS, randomness)
        self._made = 0

    def begin(self, now: float) -> float:
        """Counts an attempt, and says how many seconds it may take.

        Raises:
            DeadlineExceeded: The time is over.
        """
        left = self._deadline - now
        if left <= 0:
            raise DeadlineExceeded(
                f"waited {self._timeout} s", code=grpc.StatusCode.DEADLINE_EXCEEDED
            )
        self._made += 1
        return left

    def delay_after(self, error: ListwatchError, now: float) -> Optional[float]:
        """Seconds until the next attempt; None if ``error`` is the outcome."""
        if self._made >= MAX_ATTEMPTS or not _passes(error):
            return None
        delay = error.retry_after
        if delay is None:
            delay = self._backoff.next_delay()
        # Better the server's own words than a timeout that is already certain.
        return None if now + delay >= self._deadline else delay


def _passes(error: ListwatchError) -> bool:
    """Whether the same call may succeed with nothing changed but time."""
    if isinstance(error, Exhausted):
        return error.retry_after is not None
    return isinstance(error, Unavailable)
