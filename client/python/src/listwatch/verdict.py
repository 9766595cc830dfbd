"""What an error means for a watch."""

from __future__ import annotations

import enum

from listwatch.errors import (
    AlreadyExists,
    DataLoss,
    Exhausted,
    Expired,
    FutureRevision,
    InvalidRequest,
    ListwatchError,
    NotFound,
    PermissionDenied,
    Unauthenticated,
    Unimplemented,
)


class Verdict(enum.Enum):
    """What to do about an error."""

    RESUME = enum.auto()
    """Go on from the same position, after backoff or after what the server says."""
    AHEAD = enum.auto()
    """The position is ahead of the server: it may be a replica that is behind, so try the same
    position again, but not for ever: it may be another history."""
    START_OVER = enum.auto()
    """The position is worth nothing any more."""
    DATA_LOSS = enum.auto()
    """As START_OVER, and no position is known to be better."""
    UNEXPLAINED = enum.auto()
    """As START_OVER, for a reason that is not known: another start may meet the same."""
    BAD_TOKEN = enum.auto()
    """The token is not one of this server and selector."""
    REFUSED = enum.auto()
    """No retry helps."""


_REFUSALS = (
    InvalidRequest,
    Unauthenticated,
    PermissionDenied,
    NotFound,
    AlreadyExists,
    Unimplemented,
)


def verdict(error: ListwatchError) -> Verdict:
    """Judges the error that a stream ended with."""
    if isinstance(error, Expired):
        known = error.reason in ("REVISION_COMPACTED", "STORE_CHANGED")
        return Verdict.START_OVER if known else Verdict.UNEXPLAINED
    if isinstance(error, FutureRevision):
        return Verdict.AHEAD
    if isinstance(error, DataLoss):
        return Verdict.DATA_LOSS
    if isinstance(error, Exhausted):
        return Verdict.REFUSED if error.retry_after is None else Verdict.RESUME
    if isinstance(error, InvalidRequest) and error.reason == "TOKEN_INVALID":
        return Verdict.BAD_TOKEN
    return Verdict.REFUSED if isinstance(error, _REFUSALS) else Verdict.RESUME
