"""How long to wait before the next attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Callable

Randomness = Callable[[], float]
"""Gives numbers from 0 to 1. From outside, so that tests decide."""


@dataclass(frozen=True)
class BackoffOptions:
    """The bounds of a :class:`Backoff`. The defaults are those of Kubernetes' reflectors."""

    initial: float = 0.8
    """The longest first delay, in seconds."""
    factor: float = 2.0
    """By how much the longest delay grows from one failure to the next; at least 1."""
    max: float = 30.0
    """The longest delay of all, in seconds."""


class Backoff:
    """Exponential backoff with full jitter.

    Each delay is drawn evenly between nothing and a bound that grows with each failure, so that
    clients that failed together do not come back together.
    """

    def __init__(
        self, options: BackoffOptions = BackoffOptions(), randomness: Randomness = random.random
    ) -> None:
        """Starts at ``options.initial``."""
        self._options = options
        self._randomness = randomness
        self._bound = 0.0
        self.reset()

    def next_delay(self) -> float:
        """The delay after one more failure, in seconds."""
        delay = self.jittered(self._bound)
        self._bound = min(self._bound * max(self._options.factor, 1.0), self._options.max)
        return delay

    def jittered(self, bound: float) -> float:
        """Something between nothing and ``bound`` seconds, without counting a failure."""
        return bound * min(max(self._randomness(), 0.0), 1.0)

    def reset(self) -> None:
        """Goes back to the first delay."""
        self._bound = min(self._options.initial, self._options.max)
