"""Calls that wait for their turn, in order of arrival (see engine/group_commit.py and engine/async_group_commit.py)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rowq.errors import OutcomeUnknown, RowqError, StoreBusy, StoreUnavailable
from rowq.store.call import Call

MAX_ROWS = 1_000
MAX_BYTES = 8 << 20
MAX_WAITING_BYTES = 64 << 20

Abandoned = Callable[[Call[Any]], None]
Future = asyncio.Future[None]
Perform = Callable[[Sequence[Call[Any]]], None]
T = TypeVar("T")


class PendingCall:
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
        """Discards any result: the call's transaction may have been rolled back."""
        self.call.result = None
        self.call.error = OutcomeUnknown("the program was interrupted while this was being written: it may or may not be there")
        self.is_done = True


class CallQueue:
    """Waiting calls in order of arrival."""

    def __init__(self, timeout: float) -> None:
        self.mutex = threading.Lock()
        self._timeout = timeout
        self.waiting: deque[PendingCall] = deque()
        self._bytes = 0
        self._last_error: BaseException | None = None

    def join(self, pending: Sequence[PendingCall]) -> None:
        """All or none. The caller holds the mutex."""
        if self._bytes > MAX_WAITING_BYTES:
            raise StoreBusy(f"more than {MAX_WAITING_BYTES >> 20} MB of messages wait for the disk already: slow down and try again")
        self.waiting.extend(pending)
        self._bytes += sum([one.call.size for one in pending])

    def next_batch(self, most: int | None = None) -> tuple[list[PendingCall], list[PendingCall]]:
        """The calls to perform together now, and the calls that timed out, with their error set."""
        batch: list[PendingCall] = []
        late: list[PendingCall] = []
        rows = size = 0
        now = time.monotonic()
        with self.mutex:
            while self.waiting and (most is None or len(batch) < most):
                pending = self.waiting[0]
                call = pending.call
                if batch and (rows + call.rows > MAX_ROWS or size + call.size > MAX_BYTES):
                    break
                self.waiting.popleft()
                self._bytes -= call.size
                if now > pending.deadline:
                    call.fail(self._late_error())
                    late.append(pending)
                elif not pending.is_gone and not (pending.future and pending.future.cancelled()):
                    rows += call.rows
                    size += call.size
                    batch.append(pending)
        return batch, late

    def take_late(self) -> list[PendingCall]:
        """The calls at the front that timed out before their turn, with their error set."""
        late: list[PendingCall] = []
        now = time.monotonic()
        with self.mutex:
            while self.waiting and now > self.waiting[0].deadline:
                pending = self.waiting.popleft()
                self._bytes -= pending.call.size
                pending.call.fail(self._late_error())
                late.append(pending)
        return late

    def first_thread(self) -> PendingCall | None:
        """The caller holds the mutex."""
        return next((pending for pending in self.waiting if pending.future is None and not pending.is_gone), None)

    def remember(self, error: BaseException | None) -> None:
        """The outcome of the last call that was performed."""
        self._last_error = error

    def clear(self) -> None:
        """In the child of a fork: the mutex may be held by a thread that does not exist here."""
        self.mutex = threading.Lock()
        self.waiting.clear()

    def _late_error(self) -> RowqError:
        """If the database was unavailable for the calls before it, a late call reports that error."""
        if isinstance(self._last_error, StoreUnavailable):
            return self._last_error
        return StoreBusy(f"the database did not get to this call within {self._timeout:g} s; it was not written")


def perform_together(perform: Perform, batch: Sequence[PendingCall]) -> None:
    """If interrupted, every call of the batch fails as unknown: no caller gets a partial answer."""
    try:
        perform([pending.call for pending in batch])
    except BaseException:
        for pending in batch:
            pending.interrupt()
        raise


async def answered(call: Call[Any], future: Future, abandoned: Abandoned) -> None:
    """Waits for the answer. If the caller is cancelled as the answer arrives, the call is handed to `abandoned`."""
    try:
        await future
    except asyncio.CancelledError:
        if future.done() and not future.cancelled():
            abandoned(call)
        raise


def resolve(done: Sequence[PendingCall], abandoned: Abandoned) -> None:
    """Runs in the callers' event loop."""
    for pending in done:
        if pending.future is None or pending.future.cancelled():
            abandoned(pending.call)
        else:
            pending.future.set_result(None)
