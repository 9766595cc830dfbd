from __future__ import annotations

from listwatch.backoff import Backoff, BackoffOptions


def test_delays_double_from_800_ms_to_30_s() -> None:
    backoff = Backoff(BackoffOptions(), lambda: 1.0)
    delays = [round(backoff.next_delay(), 3) for _ in range(8)]
    assert delays == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    backoff.reset()
    assert backoff.next_delay() == 0.8


def test_jitter_is_full() -> None:
    assert Backoff(BackoffOptions(), lambda: 0.0).next_delay() == 0.0
    assert Backoff(BackoffOptions(), lambda: 0.5).next_delay() == 0.4


def test_a_factor_below_one_does_not_shrink_delays() -> None:
    backoff = Backoff(BackoffOptions(initial=1.0, factor=0.5), lambda: 1.0)
    assert [backoff.next_delay(), backoff.next_delay()] == [1.0, 1.0]
