"""Time as a parameter: milliseconds since 1970, UTC. Nothing below the broker reads a clock of its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since 1970, UTC."""


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved; for tests and simulations."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += round(seconds * 1000)
