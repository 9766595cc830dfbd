"""How a reflector is doing."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Optional

from listwatch.errors import WatchEnded


class Connection(enum.Enum):
    """The state of the stream behind a reflector."""

    CONNECTING = "connecting"
    """No stream has said anything yet."""
    SYNCING = "syncing"
    """An initial state, a net difference or a manifest is being received."""
    LIVE = "live"
    """Changes come as they happen."""
    DISCONNECTED = "disconnected"
    """The stream is lost, and the next one has its time."""
    STOPPED = "stopped"
    """The reflector was closed, or its watch is refused. What it held can still be read."""


@dataclass(frozen=True)
class Status:
    """How a reflector is doing, at one moment. Times are those of ``time.monotonic()``."""

    connection: Connection = Connection.CONNECTING
    ready: bool = False
    """Whether the reflector has ever been in step with the server."""
    stale_since: Optional[float] = None
    """Since when what is shown may miss changes; None while the reflector is in step."""
    revision: int = 0
    """The revision that is shown."""
    latest_revision: int = 0
    """The newest revision that the server spoke of."""
    last_response: Optional[float] = None
    """When the server last said anything."""
    initial_states: int = 0
    """How many initial states were received to their end. One, unless history expired."""
    stopped_by: Optional[WatchEnded] = None
    """What ended the watch, if it was ended."""

    @property
    def stale(self) -> bool:
        """Whether what is shown may miss changes that the server has made."""
        return self.stale_since is not None

    @property
    def stopped(self) -> bool:
        """Whether the reflector has ended."""
        return self.connection is Connection.STOPPED
