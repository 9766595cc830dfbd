"""How a watch goes on: decides, and leaves all I/O and all waiting to its caller.

Both :class:`listwatch.Watcher` and :class:`listwatch.aio.Watcher` are loops around
:class:`WatchMachine`. Times are seconds of any monotonic clock and come in as arguments.
"""

from __future__ import annotations

import enum
import logging
from collections import deque
from dataclasses import dataclass
from typing import Deque, Optional, Union

from listwatch import v1
from listwatch.backoff import Backoff
from listwatch.errors import ListwatchError, ProtocolBreach, WatchEnded, WatchExpired, WatchRefused
from listwatch.events import (
    POINTS,
    Apply,
    Bookmark,
    CaughtUp,
    Cause,
    Delete,
    Disconnected,
    Event,
    InitBegin,
    InitDone,
    ManifestBegin,
    NetBegin,
)
from listwatch.options import AfterToken, InitialState, OnExpired, Start, WatchOptions
from listwatch.phase import Phase, Told, translate
from listwatch.verdict import Verdict, verdict

_log = logging.getLogger("listwatch")

SHORTEST_GOOD_STREAM = 1.0
"""A stream that ends sooner counts as a failure, however politely it ends: a server (or a proxy)
that ends every stream at once would otherwise be called in a tight loop. Seconds."""
HEALTHY_AFTER = 120.0
"""A stream of this length has proved that the server is well: the next failure is a new one."""
RECONNECT_SPREAD = 0.2
"""Spreads those that reconnect without backoff, since a server that goes away sends all its
clients at one moment. Seconds."""
SHORTEST_RETRY_AFTER = 0.1
"""However soon the server says. Seconds."""
MAX_ATTEMPTS_AHEAD = 5
"""How often the same position is tried on servers that are behind it."""
MAX_UNEXPLAINED = 5
"""How often to start over for a reason that is not known."""


@dataclass(frozen=True)
class Give:
    """Give out this event."""

    event: Event


@dataclass(frozen=True)
class Open:
    """Open a stream with this request, and report by :meth:`WatchMachine.opened`."""

    request: v1.WatchRequest


@dataclass(frozen=True)
class Read:
    """Read the next response; report it by :meth:`WatchMachine.received`, or else the loss."""

    patience: float
    """After so many seconds without a response the stream is lost by ``cause``."""
    cause: Cause


@dataclass(frozen=True)
class Wait:
    """Wait until then, and report by :meth:`WatchMachine.waited`."""

    until: float


@dataclass(frozen=True)
class End:
    """It is over: raise ``error`` once, and give nothing out any more."""

    error: Optional[WatchEnded]


Action = Union[Give, Open, Read, Wait, End]
"""What a machine wants to be done next."""


class _State(enum.Enum):
    DISCONNECTED = enum.auto()
    """No stream, and no reason to wait."""
    STREAMING = enum.auto()
    """Responses come, or are awaited."""
    WAITING = enum.auto()
    """The next attempt has its time."""
    ENDED = enum.auto()
    """By an error that no retry cures. Never left."""


class _Stream:
    """An open stream."""

    def __init__(self, phase: Phase, repeats: Told) -> None:
        self.phase = phase
        # What streams before this one told after the point at which this one starts.
        self.repeats = repeats
        # When the first response came.
        self.since: Optional[float] = None
        # How long the consumer has waited in vain since the last response, and since the last
        # event. The time in which it does not ask is not the server's silence.
        self.quiet = 0.0
        self.stalled = 0.0
        self.asked_at: Optional[float] = None

    def stop_asking(self, now: float) -> None:
        if self.asked_at is not None:
            waited = now - self.asked_at
            self.quiet += waited
            self.stalled += waited
            self.asked_at = None


class WatchMachine:
    """The state of one watch: where it is, what was told, when to try again."""

    def __init__(self, selector: v1.Selector, options: WatchOptions) -> None:
        """Begins as ``options.start`` says."""
        self._selector = selector
        self._options = options
        self._backoff = Backoff(options.backoff, options.randomness)
        # Where the next stream starts while there is no position.
        self._next_start: Start = options.start
        # The last point whose events have all been given out.
        self._position: Optional[str] = None
        # What has been given out since.
        self._told = Told()
        # Whether what is given out belongs to an initial state or catches up: that is told again
        # as a whole after a disconnection, and `_told` does not concern it.
        self._syncing = False
        # Of the last response, what has not been given out.
        self._ready: Deque[Event] = deque()
        # In a row:
        self._attempts_ahead = 0
        self._unexplained = 0
        # Reconnections without backoff in a row that led to a short stream.
        self._hasty = 0
        self._state = _State.DISCONNECTED
        self._stream = _Stream(Phase.LIVE, Told())
        self._wait_until = 0.0
        self._error: Optional[WatchEnded] = None

    @property
    def position(self) -> Optional[str]:
        """The token of the last point whose events have all been given out."""
        return self._position

    @property
    def response_is_done(self) -> bool:
        """Whether every event of the last response has been given out."""
        return not self._ready

    @property
    def wants_stream(self) -> bool:
        """Whether a stream that is open is still of use. One that is not is to be cancelled
        before anything else is done: two would count twice against the server's limits."""
        return self._state is _State.STREAMING

    def next_action(self, now: float) -> Action:
        """What to do next. To be asked again after each report."""
        if self._ready:
            return Give(self._take_ready())
        if self._state is _State.DISCONNECTED:
            return Open(self._options.request(self._selector, self._start()))
        if self._state is _State.STREAMING:
            return self._read(now)
        if self._state is _State.WAITING:
            return Wait(self._wait_until)
        error, self._error = self._error, None
        return End(error)

    def opened(self, now: float) -> None:
        """The request has been sent. A failure to connect is a loss like any other."""
        initial = isinstance(self._start(), InitialState)
        phase = Phase.OPENED_INITIAL if initial else Phase.OPENED_RESUMING
        self._stream = _Stream(phase, self._told)
        self._told = Told()
        self._state = _State.STREAMING

    def received(self, response: v1.WatchResponse, now: float) -> None:
        """A response has come."""
        stream = self._stream
        stream.stop_asking(now)
        if stream.since is None:
            stream.since = now
        self._attempts_ahead = 0
        stream.quiet = 0.0
        was_syncing = stream.phase.is_syncing
        try:
            translated = translate(stream.phase, response, stream.repeats)
        except ProtocolBreach as breach:
            self.failed(breach, now)
            return
        stream.phase = translated.phase
        if response.events or (stream.phase.is_syncing and not was_syncing):
            stream.stalled = 0.0
        if stream.phase is Phase.LIVE:
            self._unexplained = 0
        if any(isinstance(event, (InitDone, CaughtUp, Bookmark)) for event in translated.events):
            # What an earlier stream told is behind now.
            stream.repeats.clear()
        self._ready.extend(translated.events)
        if translated.going_away:
            self.lost(Cause.GOING_AWAY, now)

    def gave_up(self, now: float) -> None:
        """The consumer has stopped asking; the reading goes on when it asks again."""
        self._stream.stop_asking(now)

    def waited(self) -> None:
        """The time of a :class:`Wait` has come."""
        if self._state is _State.WAITING:
            self._state = _State.DISCONNECTED

    def lost(self, cause: Cause, now: float) -> None:
        """The stream is over for another reason than an error."""
        good = self._close_stream(now)
        if cause is Cause.ENDED and good:
            delay = self._backoff.jittered(RECONNECT_SPREAD)
        elif cause is Cause.GOING_AWAY and self._hasty == 0:
            if not good:
                self._hasty += 1
            delay = self._backoff.jittered(RECONNECT_SPREAD)
        else:
            delay = self._backoff.next_delay()
        self._wait(Disconnected(cause, delay), now)

    def failed(self, error: ListwatchError, now: float) -> None:
        """The stream is over by an error. Decides when and from where to go on, if at all."""
        self._close_stream(now)
        end = self._consequence(error)
        if end is not None:
            self._state = _State.ENDED
            self._error = end
            return
        if error.retry_after is not None and verdict(error) in (Verdict.RESUME, Verdict.AHEAD):
            # At least what the server says, and not everyone at the same moment.
            delay = max(error.retry_after, SHORTEST_RETRY_AFTER)
            delay += self._backoff.jittered(delay / 10)
        else:
            delay = self._backoff.next_delay()
        self._wait(Disconnected(Cause.ERROR, delay, error), now)

    def restart(self, now: float) -> None:
        """Forgets the position and goes on with a new initial state, after backoff."""
        if self._state is not _State.ENDED:
            self._ready.clear()
            self._start_over()
            self._wait(Disconnected(Cause.RESTARTED, self._backoff.next_delay()), now)

    def _start(self) -> Start:
        return self._next_start if self._position is None else AfterToken(self._position)

    def _start_over(self) -> None:
        self._position = None
        # Without the consistency that was asked for at first: its revision is of the past,
        # perhaps of another store.
        self._next_start = InitialState()
        self._told.clear()

    def _read(self, now: float) -> Read:
        stream = self._stream
        stream.stop_asking(now)
        stream.asked_at = now
        if stream.since is None:
            patience = self._options.first_response_timeout - stream.quiet
            return Read(max(patience, 0.0), Cause.NO_RESPONSE)
        patience, cause = self._options.silence_limit - stream.quiet, Cause.SILENT
        if stream.phase.is_syncing:
            progress = self._options.progress_timeout - stream.stalled
            if progress < patience:
                patience, cause = progress, Cause.NO_PROGRESS
        return Read(max(patience, 0.0), cause)

    def _take_ready(self) -> Event:
        """The next event. With a point takes its token: not before, since whoever stops reading
        here has not seen what comes before the point."""
        event = self._ready.popleft()
        if isinstance(event, POINTS):
            self._position = event.point.resume_token or self._position
            self._told.clear()
            self._syncing = False
        elif isinstance(event, (InitBegin, NetBegin, ManifestBegin)):
            self._syncing = True
        elif isinstance(event, Disconnected):
            self._syncing = False
        elif isinstance(event, (Apply, Delete)) and not self._syncing:
            self._told.record(event.object)
        return event

    def _close_stream(self, now: float) -> bool:
        """Returns whether the stream lived long enough to count as a good one."""
        stream = self._stream
        stream.stop_asking(now)
        self._told.absorb(stream.repeats)
        lived = 0.0 if stream.since is None else now - stream.since
        good = stream.since is not None and lived >= SHORTEST_GOOD_STREAM
        if lived >= HEALTHY_AFTER:
            self._backoff.reset()
        if good:
            self._hasty = 0
        return good

    def _consequence(self, error: ListwatchError) -> Optional[WatchEnded]:
        """Moves the position as the error demands; returns what ends the watch, if it must end."""
        fails = self._options.on_expired is OnExpired.FAIL
        judged = verdict(error)
        if judged is Verdict.REFUSED:
            return WatchRefused(error)
        if judged is Verdict.AHEAD:
            self._attempts_ahead += 1
            if self._attempts_ahead >= MAX_ATTEMPTS_AHEAD:
                if fails:
                    return WatchExpired(error)
                self._attempts_ahead = 0
                self._start_over()
        elif judged is Verdict.BAD_TOKEN:
            # One that this watch was given by the server went bad with the server.
            if self._position is None or fails:
                return WatchRefused(error)
            self._start_over()
        elif judged is Verdict.DATA_LOSS:
            self._start_over()
        elif judged in (Verdict.START_OVER, Verdict.UNEXPLAINED):
            if fails:
                return WatchExpired(error)
            # An initial state cannot expire, unless it was asked for at a revision.
            if judged is Verdict.UNEXPLAINED or isinstance(self._start(), InitialState):
                self._unexplained += 1
                if self._unexplained >= MAX_UNEXPLAINED:
                    return WatchRefused(error)
            self._start_over()
        return None

    def _wait(self, event: Disconnected, now: float) -> None:
        _log.debug("watch stream lost: %s", event)
        self._ready.append(event)
        self._wait_until = now + event.retry_in
        self._state = _State.WAITING
