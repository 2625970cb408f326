"""Threads that work at the same time, turn after turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from benchmarks.harness import Timing

Worker = Callable[[], int]
"""Does its part of a turn, and tells of how many messages."""


class Crew:
    """A thread for each worker; they are kept from turn to turn, since starting one is no part of anybody's work."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._threads = ThreadPoolExecutor(len(workers))

    def turn(self) -> Timing:
        """From the first beginning to the last end."""
        started = time.perf_counter()
        parts = [self._threads.submit(worker) for worker in self._workers]
        messages = sum(part.result() for part in parts)
        return Timing(time.perf_counter() - started, messages)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._threads.shutdown()
