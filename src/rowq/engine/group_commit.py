"""Group commit: calls that arrive together, from any number of threads and event loops, become one transaction.

The thread that holds the turn is the leader: it performs all waiting calls, including its own. Calls that arrive meanwhile form the next
batch while this one is written to disk, so the batch size follows the load and a lone caller never waits for others. A thread
that has its answer releases the turn and wakes the next thread to take it. An event loop cannot lead without blocking; a background
thread leads for its calls.

An interrupt (Ctrl-C) may hit the leader anywhere. So the turn is a lock that is only ever held by a `with`, and waiting threads check
it now and then: a lost wake-up costs a moment, never an answer.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rowq.clock import running
from rowq.engine.call_queue import Abandoned, CallQueue, PendingCall, Perform, answered, perform_together, resolve
from rowq.engine.fork import forks
from rowq.errors import BrokerClosed, RowqError
from rowq.store.call import Call

LOOK_UP_EVERY = 0.2

T = TypeVar("T")


class GroupCommit:
    def __init__(self, perform: Perform, *, timeout: float, slow: GroupCommit | None = None) -> None:
        """`slow`: where calls go that would have to wait for another transaction."""
        self._perform = perform
        self._slow = slow
        self._timeout = timeout
        self._is_closed = False
        self.is_forked = False
        self._line = CallQueue(timeout)
        self._worker: threading.Thread | None = None
        self._gathering: dict[asyncio.AbstractEventLoop, list[PendingCall]] = {}
        """Calls of a loop's current iteration: they are handed over together, so that the mutex is taken once for all of them."""
        self._make_locks()
        self.watch(lambda call: None, lambda: None)
        forks.watch(self)

    def watch(self, abandoned: Callable[[Call[Any]], None], forked: Callable[[], None]) -> None:
        """`abandoned` receives calls that were performed for a caller that had gone away; `forked` is called in the child of a fork."""
        self.abandoned, self.forked = abandoned, forked

    def run(self, call: Call[T]) -> T:
        """Performs a call, alone or in a batch, and waits for it."""
        self.check_open()
        if self._line.waiting or self._turn.locked() or not self._take_turn(self._perform_alone, call):
            self._run_in_company(call)
        else:
            self._wake_next()
        return self._slow.run(call.anew()) if self._slow and call.would_wait else result_of(call, self.abandoned)

    async def run_async(self, call: Call[T]) -> T:
        """The same for a coroutine: the calls of one loop iteration go together."""
        self.check_open()
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        gathered = self._gathering.get(loop)
        if gathered is None:
            gathered = self._gathering[loop] = []
            loop.call_soon(self._hand_over, loop)  # at the end of this loop iteration, when all its calls have been gathered
        gathered.append(PendingCall(call, time.monotonic() + self._timeout, future))
        await answered(call, future, self.abandoned)
        return await self._slow.run_async(call.anew()) if self._slow and call.would_wait else result_of(call, self.abandoned)

    def burden(self) -> int:
        """How many calls are ahead of a new one."""
        return len(self._line.waiting) + self._turn.locked() + sum(map(len, self._gathering.values()))

    def if_idle(self, function: Callable[[], T]) -> T | None:
        """Runs a function as the writer if the turn is free; None if it is taken. Not for threads that may be interrupted."""
        if not self._is_open() or not self._turn.acquire(blocking=False):
            return None
        try:
            return function() if self._is_open() else None
        finally:
            self._turn.release()
            self._wake_next()

    def check_open(self) -> None:
        if self.is_forked:
            raise BrokerClosed("this broker was opened before a fork: connect again in the child process")
        if self._is_closed:
            raise BrokerClosed("this broker is closed: connect again")

    def _is_open(self) -> bool:
        return not self._is_closed and not self.is_forked

    def close(self, finish: Callable[[], None]) -> None:
        """Answers the waiting calls, then closes permanently."""
        if self._is_closed or self.is_forked:
            self._is_closed = True
            return
        with self._line.mutex:
            self._is_closed = True
        with self._turn:
            while self._perform_batch():
                pass
            finish()
        if self._worker is not None:
            self._worker_turn.release()
            self._worker.join()

    def hold_still(self) -> None:
        """Before a fork: no transaction is open while memory is copied."""
        self._turn.acquire()

    def go_on(self) -> None:
        self._turn.release()

    def be_forked(self) -> None:
        """In the child: threads that do not exist here may hold the locks."""
        self.is_forked = True
        self._make_locks()
        self._line.clear()
        self._gathering.clear()
        self.forked()

    def _make_locks(self) -> None:
        self._turn = threading.Lock()
        self._worker_turn = threading.Semaphore(0)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hands the calls of one loop iteration to the worker."""
        gathered = self._gathering.pop(loop)
        with self._line.mutex:
            try:
                self._join(gathered)
            except RowqError as error:
                for pending in gathered:
                    pending.call.error = error
            else:
                self._start_worker()
                gathered = []
        resolve(gathered, self.abandoned)
        self._worker_turn.release()

    def _join(self, pending: Sequence[PendingCall]) -> None:
        self.check_open()  # again: it may have been closed meanwhile
        self._line.join(pending)

    def _run_in_company(self, call: Call[Any]) -> None:
        pending = PendingCall(call, time.monotonic() + self._timeout, None)
        with self._line.mutex:
            self._join([pending])
        try:
            while not pending.is_done:
                if self._turn.locked():
                    pending.gate.acquire(timeout=LOOK_UP_EVERY)  # released by an answer, or to take the turn
                else:
                    self._take_turn(self._lead, pending)
        except BaseException:
            pending.is_gone = True
            if pending.is_done:
                self.abandoned(call)
            raise
        finally:
            self._wake_next()

    def _lead(self, own: PendingCall) -> None:
        """Performs batches until the thread's own call is answered."""
        while not own.is_done:
            if not self._perform_batch() and not own.is_done:
                own.interrupt()  # no longer queued, yet unanswered: its leader was interrupted

    def _take_turn(self, perform: Callable[[T], None], subject: T) -> bool:
        """Runs `perform` as the writer. False if the turn is taken: the worker of a busy loop holds it for as long as calls arrive.

        The main thread waits instead: an interrupt between acquiring the turn and the `try` would leave it locked forever.
        """
        if threading.current_thread() is threading.main_thread():
            with self._turn:
                perform(subject)
            return True
        if not self._turn.acquire(blocking=False):
            return False
        try:
            perform(subject)
        finally:
            self._turn.release()
        return True

    def _perform_alone(self, call: Call[Any]) -> None:
        if self._is_closed:
            self.check_open()
        try:
            self._perform([call])
        except BaseException:
            call.result = None
            raise

    def _perform_batch(self) -> bool:
        batch, late = self._line.next_batch()
        self._answer(late)
        if not batch:
            return False
        try:
            perform_together(self._perform, batch)
        finally:
            self._answer(batch)
        return True

    def _answer(self, batch: Sequence[PendingCall]) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[PendingCall]] = {}
        if batch:
            self._line.remember(batch[-1].call.error)
        for pending in batch:
            pending.is_done = True
            if pending.future is not None:
                loops.setdefault(pending.future.get_loop(), []).append(pending)
            elif pending.is_gone:
                self.abandoned(pending.call)
            elif pending.gate.locked():
                pending.gate.release()
        for loop, done in loops.items():
            try:
                loop.call_soon_threadsafe(resolve, done, self.abandoned)
            except RuntimeError:  # the loop was closed while its callers were waiting
                for pending in done:
                    self.abandoned(pending.call)

    def _wake_next(self) -> None:
        """The first waiting thread takes the turn. For waiting loops the worker has already been woken."""
        if not self._line.waiting:
            return
        with self._line.mutex:
            heir = self._line.first_thread()
            if heir is not None and heir.gate.locked():
                heir.gate.release()

    def _start_worker(self) -> None:
        if self._worker is None and not self._is_closed:
            worker = threading.Thread(target=self._work, name="rowq-group-commit", daemon=True)
            worker.start()
            self._worker = worker

    def _work(self) -> None:
        while True:
            self._worker_turn.acquire()
            with self._turn:
                if self._is_closed:
                    return
                self._drain()
            self._wake_next()

    def _drain(self) -> None:
        while True:
            try:
                if not self._perform_batch():
                    return
            except BaseException as error:
                if isinstance(error, SystemExit):
                    raise
                threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, self._worker)))


def result_of(call: Call[T], abandoned: Abandoned) -> T:
    if call.error is not None:
        raise call.error.with_traceback(None)  # all calls of a transaction share this error: each would add its own lines to it
    if call.good_until is not None and running() > call.good_until:
        abandoned(call.withdrawn())
    return call.result  # type: ignore[return-value]  # performed without an error: it has a result
