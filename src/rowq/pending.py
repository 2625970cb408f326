"""A call that waits for its turn (see fusion.py)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from rowq.errors import OutcomeUnknown, RowqError, StoreBusy, StoreUnavailable
from rowq.store.calls import Call

Future = asyncio.Future[None]


class Pending:
    """A thread waits at `gate`, an event loop for `future`."""

    __slots__ = ("call", "deadline", "future", "gate", "is_done", "is_gone")

    def __init__(self, call: Call[Any], deadline: float, future: Future | None) -> None:
        self.call = call
        self.deadline = deadline
        self.future = future
        if future is None:
            self.gate = threading.Lock()
            self.gate.acquire()
        self.is_done = False
        self.is_gone = False

    def interrupt(self) -> None:
        """Whatever was put into the call, its transaction may have been rolled back."""
        self.call.result = None
        self.call.error = OutcomeUnknown("the program was interrupted while this was being written: it may or may not be there")
        self.is_done = True


def late_error(last: BaseException | None, timeout: float) -> RowqError:
    """For a call whose time was over before its turn came. Where those before it found no database, it is told the same."""
    if isinstance(last, StoreUnavailable):
        return last
    return StoreBusy(f"the database did not get to this call within {timeout:g} s; it was not written")
