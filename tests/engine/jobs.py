"""Calls and a perform for tests of group commit: who was performed with whom is written down, and a batch can be held up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from rowq.store.call import Call
from tests.support.patience import DEADLINE, eventually


class Job(Call[str]):
    """A call that answers with its name."""

    __slots__ = ("name", "rows", "size")

    def __init__(self, name: str, *, rows: int = 1, size: int = 0) -> None:
        super().__init__()
        self.name = name
        self.rows = rows
        self.size = size


class Performer:
    """Performs jobs. `hold()` makes the next batch wait on its way, so that others gather behind it."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.before: Callable[[Sequence[Call[Any]]], None] = lambda calls: None
        self.after: Callable[[Sequence[Call[Any]]], None] = lambda calls: None
        self._open = threading.Event()
        self._open.set()

    def perform(self, calls: Sequence[Call[Any]]) -> None:
        names = [call.name for call in calls if isinstance(call, Job)]
        self.batches.append(names)
        assert self._open.wait(DEADLINE), "the writer was never let go"
        self.before(calls)
        for call, name in zip(calls, names, strict=True):
            call.result = name
        self.after(calls)

    def hold(self) -> None:
        self._open.clear()

    def let_go(self) -> None:
        self._open.set()

    def wait_for(self, name: str) -> None:
        """Until the job is being performed."""
        eventually(lambda: any(name in batch for batch in self.batches))
