from __future__ import annotations

import pytest

from listwatch.attempts import Attempts
from listwatch.errors import DeadlineExceeded
from sent import error


def test_unavailable_is_tried_four_times_in_all() -> None:
    attempts = Attempts(30.0, 0.0, lambda: 1.0)
    delays = []
    for _ in range(4):
        attempts.begin(0.0)
        delays.append(attempts.delay_after(error("UNAVAILABLE"), 0.0))
    assert delays == [0.05, 0.1, 0.2, None]


def test_the_server_says_when_to_come_back() -> None:
    attempts = Attempts(30.0, 0.0, lambda: 1.0)
    attempts.begin(0.0)
    assert attempts.delay_after(error("RESOURCE_EXHAUSTED", retry_after=2.0), 0.0) == 2.0
    assert attempts.delay_after(error("RESOURCE_EXHAUSTED"), 0.0) is None


def test_an_error_is_given_out_when_the_next_attempt_would_be_too_late() -> None:
    attempts = Attempts(1.0, 0.0, lambda: 1.0)
    assert attempts.begin(0.25) == 0.75
    assert attempts.delay_after(error("UNAVAILABLE", retry_after=0.75), 0.25) is None


@pytest.mark.parametrize("code", ["NOT_FOUND", "INTERNAL", "DEADLINE_EXCEEDED", "OUT_OF_RANGE"])
def test_other_errors_are_not_tried_again(code: str) -> None:
    attempts = Attempts(30.0, 0.0)
    attempts.begin(0.0)
    assert attempts.delay_after(error(code, retry_after=0.1), 0.0) is None


def test_the_deadline_is_for_all_of_it() -> None:
    attempts = Attempts(1.0, 0.0)
    with pytest.raises(DeadlineExceeded):
        attempts.begin(1.0)
