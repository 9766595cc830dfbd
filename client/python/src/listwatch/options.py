"""What to watch from where, and how patiently."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass
from typing import Optional, Union

from google.protobuf import duration_pb2

from listwatch import v1
from listwatch.backoff import BackoffOptions, Randomness

_NANOS = 1_000_000_000


@dataclass(frozen=True)
class InitialState:
    """Begin with everything that exists."""

    consistency: Optional[v1.Consistency] = None
    """None: linearizable."""


@dataclass(frozen=True)
class AfterToken:
    """Begin after the point that a bookmark or a list of the same selector named."""

    resume_token: str


@dataclass(frozen=True)
class AfterRevision:
    """Begin after this revision."""

    revision: int


@dataclass(frozen=True)
class Now:
    """Begin with the first change after the server takes the request."""


Start = Union[InitialState, AfterToken, AfterRevision, Now]
"""Where a watch begins."""


class OnExpired(enum.Enum):
    """What a watch does when the history after its position is gone."""

    START_OVER = "start_over"
    """It goes on with a new initial state."""
    FAIL = "fail"
    """It ends with :class:`~listwatch.errors.WatchExpired`."""


@dataclass(frozen=True)
class WatchOptions:
    """How to watch. The defaults are right for most."""

    start: Start = InitialState()
    view: v1.View = v1.VIEW_FULL
    """How much of each object to send."""
    delivery_mode: v1.DeliveryMode = v1.DELIVERY_MODE_EVERY_CHANGE
    catch_up: v1.CatchUp = v1.CATCH_UP_NET
    """What to get when the history is compacted."""
    send_previous: bool = False
    """Asks for the state before each change."""
    max_batch_delay: Optional[float] = None
    """Lets the server hold events back for so many seconds, for fewer, larger responses."""
    bookmark_interval: float = 10.0
    """The longest silence, in seconds, that the server is asked to keep. After two and a half
    such intervals another stream is opened, so it must be within the server's limits."""
    first_response_timeout: float = 30.0
    """How many seconds the first response of a stream may take."""
    progress_timeout: float = 60.0
    """How many seconds an initial state, or what catches up, may go without an event."""
    on_expired: OnExpired = OnExpired.START_OVER
    backoff: BackoffOptions = BackoffOptions()
    """Delays between attempts."""
    randomness: Randomness = random.random
    """Where the jitter comes from. For tests."""

    @property
    def silence_limit(self) -> float:
        """Seconds without a response after which a stream counts as lost."""
        return self.bookmark_interval * 2.5

    def request(self, selector: v1.Selector, start: Start) -> v1.WatchRequest:
        """The request of a stream that begins at ``start``."""
        request = v1.WatchRequest(
            selector=selector,
            view=self.view,
            delivery_mode=self.delivery_mode,
            catch_up=self.catch_up,
            send_previous=self.send_previous,
            bookmark_interval=to_duration(self.bookmark_interval),
            max_batch_delay=to_duration(self.max_batch_delay),
        )
        if isinstance(start, InitialState):
            request.initial_state.SetInParent()
            if start.consistency is not None:
                request.initial_state.consistency.CopyFrom(start.consistency)
        elif isinstance(start, AfterToken):
            request.resume_token = start.resume_token
        elif isinstance(start, AfterRevision):
            request.after_revision = start.revision
        else:
            request.now = True
        return request


def to_duration(seconds: Optional[float]) -> Optional[duration_pb2.Duration]:
    """Seconds as the API has them."""
    if seconds is None:
        return None
    whole, nanos = divmod(round(seconds * _NANOS), _NANOS)
    return duration_pb2.Duration(seconds=whole, nanos=nanos)
