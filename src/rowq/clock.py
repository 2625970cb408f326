"""Time as a parameter: milliseconds since 1970, UTC. Nothing below the broker reads a clock of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol


def running() -> float:
    """Seconds that never decrease, and continue while the machine sleeps if the system counts that; the starting point is arbitrary."""
    return time.clock_gettime(_STEADY) if _STEADY is not None else time.monotonic()


_STEADY: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since 1970, UTC."""


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000


_QUESTIONS = 5
_QUICK, _USABLE = 0.05, 1.0
"""Seconds that a response about the time may take to be used at once, and to be used at all."""


class SharedClock:
    """The database's time when it was last asked, plus the time that has passed here since: hosts with wrong clocks agree."""

    def __init__(self) -> None:
        self._offset = time.time() - running()
        self.learned_at: float | None = None

    def now(self) -> int:
        return int((running() + self._offset) * 1000)

    def learn(self, ask: Callable[[], float]) -> None:
        """Asks for the database's time until an answer comes quickly: the error is up to half of its delay."""
        best: tuple[float, float] | None = None
        for _ in range(_QUESTIONS):
            asked_at = running()
            seconds = ask()
            answered_at = running()
            if best is None or answered_at - asked_at < best[0]:
                best = (answered_at - asked_at, seconds - (asked_at + answered_at) / 2)
            if best[0] < _QUICK:
                break
        if best is not None and (best[0] < _USABLE or self.learned_at is None):
            self._offset, self.learned_at = best[1], running()


class ManualClock:
    """A clock that stands still until it is moved; for tests and simulations."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def advance(self, seconds: float | timedelta) -> None:
        self._now += round((seconds.total_seconds() if isinstance(seconds, timedelta) else seconds) * 1000)
