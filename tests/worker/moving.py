"""A clock that runs, and that a test moves ahead: for the database and for the consumers of this process alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import pytest

from rowq.clock import SystemClock

_TIMED = ("heartbeat", "in_flight", "consumer_loop")
"""The modules of `rowq.worker` that read a clock of their own: for how long a lease is theirs, and when to beat."""


class MovingClock:
    """To be given to a broker or a server as its clock. Leases can be long enough for any machine, and end when a test wants it."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._clock = SystemClock()

    def now(self) -> int:
        return self._clock.now() + round(self._ahead * 1000)

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += seconds


@contextmanager
def moving_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[MovingClock]:
    """Consumers go by it for as long as the block."""
    clock = MovingClock()
    with monkeypatch.context() as patch:
        for name in _TIMED:
            patch.setattr(import_module(f"rowq.worker.{name}"), "time", clock)
        yield clock
