"""Fusion: calls that arrive together become one transaction, from any number of threads and event loops.

There is one leader at a time. A thread that finds nobody leading leads: it performs what waits, its own call among it. Whoever
comes meanwhile waits, and is part of the next batch; while one batch is on its way to the disk the next one gathers, so a batch
is as large as the load makes it, and a lone caller never waits for company. A thread that has its answer hands the lead on.
Event loops cannot lead without standing still; for their calls a thread of ours does.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rowq.errors import BrokerClosed, OutcomeUnknown, StoreBusy
from rowq.store.calls import Call

MAX_ROWS = 1_000
MAX_BYTES = 8 << 20
MAX_WAITING_BYTES = 64 << 20

T = TypeVar("T")
Perform = Callable[[Sequence[Call[Any]]], None]


class _Pending:
    """A call that waits for its turn: a thread waits at `gate`, an event loop for `future`."""

    __slots__ = ("call", "deadline", "future", "gate", "has_lead", "is_done", "is_gone", "loop")

    def __init__(
        self, call: Call[Any], deadline: float, loop: asyncio.AbstractEventLoop | None, future: asyncio.Future[None] | None
    ) -> None:
        self.call = call
        self.deadline = deadline
        self.loop = loop
        self.future = future
        self.gate = threading.Lock()
        self.gate.acquire()
        self.is_done = False
        self.is_gone = False
        self.has_lead = False


class Fusion:
    def __init__(self, perform: Perform, *, timeout: float) -> None:
        self._perform = perform
        self._timeout = timeout
        self._mutex = threading.Lock()
        self._waiting: deque[_Pending] = deque()
        self._waiting_bytes = 0
        self._is_led = False
        self._is_closed = False
        self._is_forked = False
        _every_fusion.add(self)
        self._worker: threading.Thread | None = None
        self._worker_turn = threading.Semaphore(0)
        self.abandoned: Callable[[Call[Any]], None] = lambda call: None
        """Told of calls that were performed for a caller who had gone away meanwhile."""

    def run(self, call: Call[T]) -> T:
        """Performs a call, alone or in company, and waits for it."""
        with self._mutex:
            self.check_open()
            is_alone = not self._is_led
            self._is_led = True
            pending = None if is_alone else self._enter(call)
        if pending is None:
            self._run_alone(call)
        else:
            self._follow(pending)
            if not pending.is_done:
                self._lead(pending)
        return _outcome(call)

    async def run_async(self, call: Call[T]) -> T:
        """The same for a coroutine: the calls of one turn of the loop go together."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._mutex:
            self.check_open()
            self._enter(call, loop, future)
            is_first = not self._is_led
            self._is_led = True
        if is_first:
            # The lead is ours already; the worker takes it up at the end of this turn, when all who come in it have entered.
            loop.call_soon(self._call_worker)
        await future
        return _outcome(call)

    def if_idle(self, function: Callable[[], T]) -> T | None:
        """Runs a function in the writer's place if nobody is there now; None if somebody is."""
        with self._mutex:
            if self._is_led or self._is_closed or self._is_forked:
                return None
            self._is_led = True
        try:
            return function()
        finally:
            self._hand_over()

    def close(self, finish: Callable[[], None]) -> None:
        """Answers what is waiting, then closes for good."""
        with self._mutex:
            if self._is_closed:
                return
            self._is_closed = True
        if not self._is_forked:
            while True:  # the last leader leaves only when nobody waits
                with self._mutex:
                    if not self._is_led:
                        self._is_led = True
                        break
                time.sleep(0.001)
            if self._worker is not None:
                self._worker_turn.release()
                self._worker.join()
        finish()

    def check_open(self) -> None:
        if self._is_closed:
            raise BrokerClosed("this broker is closed: connect again")
        if self._is_forked:
            raise BrokerClosed("this broker was opened before a fork: connect again in the child process")

    def _enter(
        self, call: Call[Any], loop: asyncio.AbstractEventLoop | None = None, future: asyncio.Future[None] | None = None
    ) -> _Pending:
        if self._waiting_bytes > MAX_WAITING_BYTES:
            raise StoreBusy(f"more than {MAX_WAITING_BYTES >> 20} MB of messages wait for the disk already: slow down and try again")
        pending = _Pending(call, time.monotonic() + self._timeout, loop, future)
        self._waiting.append(pending)
        self._waiting_bytes += call.size
        return pending

    def _run_alone(self, call: Call[Any]) -> None:
        """Nobody is there and nobody waits: no queue, no gate, no batch."""
        try:
            self._perform([call])
        finally:
            self._hand_over()

    def _follow(self, pending: _Pending) -> None:
        """Waits until the gate is opened: by an answer, or by being handed the lead."""
        try:
            pending.gate.acquire()
        except BaseException:  # Ctrl-C: whoever goes away must not take the lead along
            with self._mutex:
                pending.is_gone = True
            if pending.has_lead:
                self._hand_over()
            raise

    def _lead(self, own: _Pending | None) -> None:
        """Performs batches until the own call is answered; without one, until nobody waits."""
        try:
            while own is None or not own.is_done:
                batch = self._next_batch()
                if not batch:
                    return
                try:
                    self._perform([pending.call for pending in batch])
                except BaseException:
                    _fail(batch)
                    raise
                finally:
                    self._answer(batch)
        finally:
            self._hand_over()

    def _next_batch(self) -> list[_Pending]:
        batch: list[_Pending] = []
        rows = size = 0
        now = time.monotonic()
        with self._mutex:
            while self._waiting:
                pending = self._waiting[0]
                call = pending.call
                if batch and (rows + call.rows > MAX_ROWS or size + call.size > MAX_BYTES):
                    break
                self._waiting.popleft()
                self._waiting_bytes -= call.size
                if pending.future is not None and pending.future.cancelled():
                    continue
                if now > pending.deadline:
                    call.error = StoreBusy(f"the database did not get to this call within {self._timeout:g} s; it was not written")
                    self._answer([pending])
                    continue
                rows += call.rows
                size += call.size
                batch.append(pending)
        return batch

    def _answer(self, batch: Sequence[_Pending]) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[_Pending]] = {}
        for pending in batch:
            pending.is_done = True
            if pending.loop is not None:
                loops.setdefault(pending.loop, []).append(pending)
            elif pending.is_gone:
                self.abandoned(pending.call)
            elif not pending.has_lead:
                pending.gate.release()
        for loop, done in loops.items():
            try:
                loop.call_soon_threadsafe(self._resolve, done)
            except RuntimeError:  # the loop was closed under its callers
                for pending in done:
                    self.abandoned(pending.call)

    def _resolve(self, done: list[_Pending]) -> None:
        for pending in done:
            if pending.future is None or pending.future.cancelled():
                self.abandoned(pending.call)
            else:
                pending.future.set_result(None)

    def _hand_over(self) -> None:
        """To a thread that waits, else to the worker for the loops that wait, else to nobody."""
        with self._mutex:
            heir = next((pending for pending in self._waiting if pending.loop is None and not pending.is_gone), None)
            if heir is not None:
                heir.has_lead = True
                heir.gate.release()
                return
            if not self._waiting:
                self._is_led = False
                return
        self._call_worker()

    def _call_worker(self) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="rowq-fusion", daemon=True)
            self._worker.start()
        self._worker_turn.release()

    def _work(self) -> None:
        while True:
            self._worker_turn.acquire()
            with self._mutex:
                if self._is_closed and not self._waiting:
                    self._is_led = False
                    return
            self._lead(None)


_every_fusion: weakref.WeakSet[Fusion] = weakref.WeakSet()


def _mark_forked() -> None:
    """A child of a fork must not touch its parent's connections. Asking for the process id at every call would be slower."""
    for fusion in _every_fusion:
        fusion._is_forked = True


os.register_at_fork(after_in_child=_mark_forked)


def _outcome(call: Call[T]) -> T:
    if call.error is not None:
        raise call.error
    return call.result  # type: ignore[return-value]  # performed without an error: it has a result


def _fail(batch: Sequence[_Pending]) -> None:
    for pending in batch:
        if pending.call.error is None and pending.call.result is None:
            pending.call.error = OutcomeUnknown("the program was interrupted while this was being written: it may or may not be there")
