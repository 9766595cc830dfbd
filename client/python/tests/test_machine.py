from __future__ import annotations

from typing import List, Optional

from listwatch import v1
from listwatch.backoff import BackoffOptions
from listwatch.errors import WatchEnded, WatchExpired, WatchRefused
from listwatch.events import Apply, Bookmark, Cause, Disconnected, Event, InitBegin, InitDone
from listwatch.machine import End, Give, Open, Read, Wait, WatchMachine
from listwatch.options import AfterToken, OnExpired, Start, WatchOptions
from sent import error, event, response


class Driver:
    """A machine, a clock, and what an I/O loop would do."""

    def __init__(self, **options: object) -> None:
        given = WatchOptions(randomness=lambda: 1.0, **options)  # type: ignore[arg-type]
        self.machine = WatchMachine(v1.Selector(collection="pods"), given)
        self.now = 1000.0

    def open(self) -> v1.WatchRequest:
        action = self.machine.next_action(self.now)
        if isinstance(action, Wait):
            self.now = max(self.now, action.until)
            self.machine.waited()
            action = self.machine.next_action(self.now)
        assert isinstance(action, Open), action
        self.machine.opened(self.now)
        return action.request

    def read(self) -> Read:
        action = self.machine.next_action(self.now)
        assert isinstance(action, Read), action
        return action

    def events(self) -> List[Event]:
        """All that are ready."""
        found = []
        while not self.machine.response_is_done:
            action = self.machine.next_action(self.now)
            assert isinstance(action, Give), action
            found.append(action.event)
        return found

    def receive(self, *responses: v1.WatchResponse) -> List[Event]:
        found = []
        for each in responses:
            self.read()
            self.machine.received(each, self.now)
            found += self.events()
        return found

    def initial(self, revision: int = 3) -> List[Event]:
        self.open()
        begin = response("INITIAL_STATE_BEGIN", revision)
        return self.receive(begin, response("INITIAL_STATE_END", revision))

    def lose(self, cause: Cause = Cause.SILENT) -> Disconnected:
        self.machine.lost(cause, self.now)
        return self.disconnected()

    def fail(self, code: str, reason: str = "", retry_after: Optional[float] = None) -> None:
        self.machine.failed(error(code, reason, retry_after), self.now)

    def disconnected(self) -> Disconnected:
        (event,) = self.events()
        assert isinstance(event, Disconnected)
        return event

    def ended(self) -> Optional[WatchEnded]:
        action = self.machine.next_action(self.now)
        assert isinstance(action, End), action
        assert self.machine.next_action(self.now) == End(None)
        return action.error


def start_of(request: v1.WatchRequest) -> str:
    kind = request.WhichOneof("start") or ""
    return request.resume_token if kind == "resume_token" else kind


def test_a_lost_stream_is_resumed_from_the_last_point() -> None:
    driver = Driver()
    assert [type(event) for event in driver.initial(3)] == [InitBegin, InitDone]
    assert driver.lose().retry_in == 0.8
    assert not driver.machine.wants_stream
    assert start_of(driver.open()) == "t3"


def test_without_a_point_the_watch_begins_where_it_was_to_begin() -> None:
    driver = Driver(start=AfterToken("mine"))
    assert start_of(driver.open()) == "mine"
    driver.lose()
    assert start_of(driver.open()) == "mine"


def test_a_point_counts_when_it_is_given_out() -> None:
    driver = Driver()
    driver.initial(3)
    driver.read()
    late = response("PROGRESS", 4, events=[event("ADDED", "a", 4)])
    driver.machine.received(late, driver.now)
    assert isinstance(driver.machine.next_action(driver.now), Give)
    assert driver.machine.position == "t3"
    assert isinstance(driver.events()[0], Bookmark)
    assert driver.machine.position == "t4"


def test_an_empty_token_is_no_position() -> None:
    driver = Driver()
    driver.initial(3)
    driver.receive(response("PROGRESS", 4, token=""))
    assert driver.machine.position == "t3"


def test_what_was_told_since_the_last_point_is_not_told_again() -> None:
    driver = Driver()
    driver.initial(3)
    driver.receive(response(events=[event("ADDED", "a", 4)]))
    driver.lose()
    driver.open()
    again = response(events=[event("ADDED", "a", 4), event("ADDED", "b", 4)])
    told = driver.receive(response("RESUMED", 3, latest=4), again)
    assert [e.object.key.name for e in told if isinstance(e, Apply)] == ["b"]


def test_an_end_with_ok_is_a_failure_only_if_it_comes_at_once() -> None:
    driver = Driver()
    driver.initial()
    assert driver.lose(Cause.ENDED).retry_in == 0.8
    driver.open()
    driver.receive(response("RESUMED", 3))
    driver.now += 1.0
    assert driver.lose(Cause.ENDED).retry_in == 0.2


def test_going_away_twice_in_a_row_is_backed_off() -> None:
    driver = Driver()
    driver.initial()
    delays = []
    for _ in range(2):
        *_, lost = driver.receive(response("GOING_AWAY", 4))
        assert isinstance(lost, Disconnected)
        delays.append(lost.retry_in)
        assert start_of(driver.open()) == "t4"
        driver.receive(response("RESUMED", 4))
    assert delays == [0.2, 0.8]


def test_backoff_begins_anew_after_a_long_stream() -> None:
    driver = Driver()
    driver.initial()
    assert [driver.lose().retry_in, driver.lose().retry_in] == [0.8, 1.6]
    driver.open()
    driver.receive(response("RESUMED", 3))
    driver.now += 121.0
    assert driver.lose().retry_in == 0.8


def test_the_first_response_is_waited_for_30_s_in_all() -> None:
    driver = Driver()
    driver.open()
    assert driver.read() == Read(30.0, Cause.NO_RESPONSE)
    driver.now += 10.0
    driver.machine.gave_up(driver.now)
    driver.now += 3600.0  # No one asked.
    assert driver.read() == Read(20.0, Cause.NO_RESPONSE)


def test_silence_is_two_and_a_half_intervals_of_asking() -> None:
    driver = Driver(bookmark_interval=2.0)
    driver.initial()
    driver.now += 3600.0
    assert driver.read() == Read(5.0, Cause.SILENT)
    driver.now += 4.0
    driver.receive(response("PROGRESS", 4))
    assert driver.read() == Read(5.0, Cause.SILENT)


def test_a_beginning_has_to_make_progress() -> None:
    driver = Driver()
    driver.open()
    driver.receive(response("INITIAL_STATE_BEGIN", 3))
    for _ in range(3):
        driver.read()
        driver.now += 20.0
        driver.machine.received(response("PROGRESS", 3), driver.now)
    assert driver.read() == Read(0.0, Cause.NO_PROGRESS)
    driver.receive(response(events=[event("EXISTING", "a", 1)]))
    assert driver.read() == Read(25.0, Cause.SILENT)


def test_retry_info_counts_at_least_100_ms_and_is_spread() -> None:
    driver = Driver()
    driver.initial()
    driver.fail("UNAVAILABLE", retry_after=0.0)
    assert round(driver.disconnected().retry_in, 3) == 0.11
    driver.fail("RESOURCE_EXHAUSTED", retry_after=2.0)
    assert round(driver.disconnected().retry_in, 3) == 2.2


def test_compacted_history_starts_over() -> None:
    driver = Driver()
    driver.initial()
    driver.fail("OUT_OF_RANGE", "REVISION_COMPACTED")
    assert driver.disconnected().retry_in == 0.8
    assert start_of(driver.open()) == "initial_state"


def test_compacted_history_ends_a_watch_that_asks_for_it() -> None:
    driver = Driver(on_expired=OnExpired.FAIL)
    driver.initial()
    driver.fail("OUT_OF_RANGE", "REVISION_COMPACTED")
    ended = driver.ended()
    assert isinstance(ended, WatchExpired)
    assert ended.reason == "REVISION_COMPACTED"


def test_a_revision_in_the_future_is_given_up_at_the_fifth_time() -> None:
    driver = Driver()
    driver.initial()
    starts = []
    for _ in range(5):
        driver.fail("OUT_OF_RANGE", "REVISION_IN_FUTURE")
        driver.disconnected()
        starts.append(start_of(driver.open()))
    assert starts == ["t3"] * 4 + ["initial_state"]


def test_an_unknown_reason_ends_the_watch_at_the_fifth_time() -> None:
    driver = Driver()
    driver.open()
    for _ in range(4):
        driver.fail("OUT_OF_RANGE")
        driver.disconnected()
        driver.open()
    driver.fail("OUT_OF_RANGE")
    assert isinstance(driver.ended(), WatchRefused)


def test_a_token_of_the_server_that_went_bad_is_dropped_and_one_of_the_caller_refused() -> None:
    start: Start = AfterToken("mine")
    driver = Driver(start=start)
    driver.open()
    driver.receive(response("RESUMED", 3))
    driver.fail("INVALID_ARGUMENT", "TOKEN_INVALID")
    driver.disconnected()
    assert start_of(driver.open()) == "initial_state"

    driver = Driver(start=start)
    driver.open()
    driver.fail("INVALID_ARGUMENT", "TOKEN_INVALID")
    assert isinstance(driver.ended(), WatchRefused)


def test_a_breach_of_the_protocol_loses_the_stream() -> None:
    driver = Driver()
    driver.open()
    (lost,) = driver.receive(response("RESUMED", 3))
    assert isinstance(lost, Disconnected)
    assert lost.cause is Cause.ERROR


def test_restart_begins_with_a_new_initial_state() -> None:
    driver = Driver(backoff=BackoffOptions(initial=0.0))
    driver.initial()
    driver.machine.restart(driver.now)
    assert driver.disconnected().cause is Cause.RESTARTED
    assert start_of(driver.open()) == "initial_state"
