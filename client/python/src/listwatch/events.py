"""What a watch tells, and what may be concluded from it.

A copy kept by these rules equals the server's state at every :class:`Point`:

- Between :class:`InitBegin` and :class:`InitDone`, and between :class:`NetBegin` or
  :class:`ManifestBegin` and :class:`CaughtUp`, work on a second copy, and swap it in at the end.
  If :class:`Disconnected` or another begin comes first, throw it away.
- Everything else applies to the copy itself, in order.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Optional, Union

from listwatch import v1
from listwatch.errors import ListwatchError


@dataclass(frozen=True)
class Point:
    """A place in the history from which a watch can go on."""

    revision: int
    """Everything up to this revision has been told."""
    resume_token: str
    """Starts a watch of the same selector here; opaque."""
    latest_revision: int
    """The store's newest revision when this was sent."""
    coalesced: int = 0
    """How many changes ``DELIVERY_MODE_LATEST`` left out since the last point."""


class Change(enum.Enum):
    """How an object came to be as :class:`Apply` says."""

    ADDED = "added"
    """It was created, or matches the selector from now on."""
    MODIFIED = "modified"
    """It was there before."""
    UPSERTED = "upserted"
    """Only your own copy can tell. Another uid under a key that you hold means that the old
    object was deleted first."""


class DeleteCause(enum.Enum):
    """Why an object is gone."""

    UNSPECIFIED = "unspecified"
    """The server does not say, or says what this client does not know."""
    REQUEST = "request"
    """It was deleted."""
    EXPIRED = "expired"
    """Its time was over."""
    UNSELECTED = "unselected"
    """It exists, and no longer matches the selector."""


class Cause(enum.Enum):
    """Why a stream was lost."""

    ENDED = "ended"
    """The server ended it with OK."""
    GOING_AWAY = "going_away"
    """The server said that it is going away."""
    SILENT = "silent"
    """Nothing came for two and a half bookmark intervals."""
    NO_RESPONSE = "no_response"
    """The first response did not come in time."""
    NO_PROGRESS = "no_progress"
    """An initial state, or what catches up, went on without an event and without its end."""
    RESTARTED = "restarted"
    """``restart()`` was called."""
    ERROR = "error"
    """An error that goes away by itself, or with a new initial state."""


@dataclass(frozen=True)
class InitBegin:
    """Everything that exists follows as :class:`InitApply`; go on serving what you hold."""


@dataclass(frozen=True)
class InitApply:
    """Part of the initial state."""

    object: v1.Resource


@dataclass(frozen=True)
class InitDone:
    """The initial state is complete. What you held and was not named is gone."""

    point: Point


@dataclass(frozen=True)
class Resumed:
    """A stream goes on where the last one stopped: every change since follows."""

    point: Point


@dataclass(frozen=True)
class NetBegin:
    """The net difference since your last point follows, one change a key.

    Revisions are torn until :class:`CaughtUp`.
    """


@dataclass(frozen=True)
class ManifestBegin:
    """What changed since your last point follows, and the keys of what did not.

    At :class:`CaughtUp`, what was not named is gone.
    """


@dataclass(frozen=True)
class CaughtUp:
    """The net difference or the manifest is complete."""

    point: Point


@dataclass(frozen=True)
class Apply:
    """The object exists and is in this state."""

    object: v1.Resource
    change: Change
    previous: Optional[v1.Resource] = None
    """The state before, if asked for and still known."""


@dataclass(frozen=True)
class Delete:
    """The object is gone, or no longer matches. It may be one that you never held."""

    object: v1.Resource
    """Its last state under the view, with the revision of the deletion."""
    cause: DeleteCause
    previous: Optional[v1.Resource] = None
    """The state before, if asked for and still known."""


@dataclass(frozen=True)
class Unchanged:
    """Of a manifest: the object is as it was at your last point. Key, uid and revision only."""

    object: v1.Resource


@dataclass(frozen=True)
class Bookmark:
    """Everything up to this point has been told."""

    point: Point


@dataclass(frozen=True)
class Disconnected:
    """The stream is lost; another will be opened by itself. What you hold grows stale."""

    cause: Cause
    retry_in: float
    """Seconds until the next stream is opened."""
    error: Optional[ListwatchError] = None
    """Where the cause is ``Cause.ERROR``."""


Event = Union[
    InitBegin,
    InitApply,
    InitDone,
    Resumed,
    NetBegin,
    ManifestBegin,
    CaughtUp,
    Apply,
    Delete,
    Unchanged,
    Bookmark,
    Disconnected,
]
"""One step of a watch."""

POINTS = (InitDone, CaughtUp, Resumed, Bookmark)
"""The events that have a :class:`Point`."""
