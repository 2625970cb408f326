"""Time as a parameter: milliseconds since 1970, UTC. Nothing below the broker reads a clock of its own."""

from __future__ import annotations

import time
from typing import Protocol


def running() -> float:
    """Seconds that only ever grow, also while the machine sleeps where the system counts that; since when is anybody's guess."""
    return time.clock_gettime(_STEADY) if _STEADY is not None else time.monotonic()


_STEADY: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since 1970, UTC."""


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000


class SharedClock:
    """The database's time, as it was when it was last asked, and the time that has passed here since: hosts whose clocks are wrong
    agree. `learn` is told the database's time, and when it was asked for and answered by `running`."""

    def __init__(self) -> None:
        self._offset = time.time() - running()
        self.learned_at: float | None = None

    def now(self) -> int:
        return int((running() + self._offset) * 1000)

    def learn(self, seconds: float, asked_at: float, answered_at: float) -> None:
        self._offset = seconds - (asked_at + answered_at) / 2
        self.learned_at = answered_at


class ManualClock:
    """A clock that stands still until it is moved; for tests and simulations."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += round(seconds * 1000)
