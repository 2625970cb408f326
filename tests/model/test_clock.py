"""Time as a parameter."""

from __future__ import annotations

import time

import pytest

from rowq.clock import ManualClock, SystemClock


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(1_000)
    assert [clock.now(), clock.now()] == [1_000, 1_000]
    clock.advance(2)
    assert clock.now() == 3_000


@pytest.mark.parametrize(("seconds", "millis"), [(0.001, 1), (1.5, 1_500), (0, 0), (86_400, 86_400_000)])
def test_a_manual_clock_moves_by_seconds(seconds: float, millis: int) -> None:
    clock = ManualClock(0)
    clock.advance(seconds)
    assert clock.now() == millis


def test_many_small_steps_add_up() -> None:
    clock = ManualClock(0)
    for _ in range(1_000):
        clock.advance(0.1)
    assert clock.now() == 100_000


def test_the_system_clock_tells_milliseconds_since_1970() -> None:
    assert abs(SystemClock().now() - time.time() * 1000) < 1_000
