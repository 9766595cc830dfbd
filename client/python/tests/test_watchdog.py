from __future__ import annotations

import threading
import time

from listwatch.watchdog import Watchdog


class Bell:
    def __init__(self) -> None:
        self.rung = threading.Event()

    def ring(self) -> None:
        self.rung.set()


def test_a_deadline_that_passes_is_noticed_also_when_it_comes_before_another() -> None:
    watchdog, late, soon = Watchdog(), Bell(), Bell()
    guards = [watchdog.guard(late.ring), watchdog.guard(soon.ring)]
    guards[0].arm(time.monotonic() + 60.0)
    guards[1].arm(time.monotonic() + 0.01)
    assert soon.rung.wait(10.0)
    assert not late.rung.is_set()


def test_a_deadline_that_is_taken_away_does_nothing() -> None:
    watchdog, first, second = Watchdog(), Bell(), Bell()
    guards = [watchdog.guard(first.ring), watchdog.guard(second.ring)]
    guards[0].arm(time.monotonic() + 0.01)
    guards[0].disarm()
    guards[1].arm(time.monotonic() + 0.05)
    assert second.rung.wait(10.0)
    assert not first.rung.is_set()


def test_a_guard_keeps_no_one_alive() -> None:
    watchdog, bell = Watchdog(), Bell()
    guard = watchdog.guard(bell.ring)
    guard.arm(time.monotonic())
    del bell
    guard.close()
