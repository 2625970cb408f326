"""Group commit inside an event loop: small calls are committed together, as those of threads are, and run in the loop in a greenlet.

One batch of each kind runs at a time while the next one gathers. Once many calls wait, a batch takes half of them: while the database
works on one half, the loop serves the other. A batch of all calls would make the loop and the database wait for each other in turn.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from rowq.engine.call_queue import Abandoned, CallQueue, PendingCall, Perform, answered, perform_together, resolve
from rowq.engine.fork import forks
from rowq.engine.group_commit import LOOK_UP_EVERY, GroupCommit, result_of
from rowq.errors import BrokerClosed, RowqError
from rowq.store.call import Call
from rowq.store.server.greenlet_bridge import GreenletBridge

FEW = 32
"""Up to this many calls go in one batch."""

T = TypeVar("T")


class AsyncGroupCommit:
    """The calls of one kind, from any event loop."""

    def __init__(self, make: Callable[[], Perform], *, timeout: float, slow: GroupCommit) -> None:
        """`make` creates what performs the calls of one loop; `slow` takes calls that would wait for another transaction."""
        self._make = make
        self._timeout = timeout
        self._slow = slow
        self._routes: dict[asyncio.AbstractEventLoop, _Route] = {}
        self._is_closed = False
        self.abandoned: Abandoned = lambda call: None
        forks.watch(self)

    async def run_async(self, call: Call[T]) -> T:
        loop = asyncio.get_running_loop()
        route = self._routes.get(loop)
        if route is None or self._is_closed:
            route = self._open(loop)
        future = loop.create_future()
        route.join(PendingCall(call, time.monotonic() + self._timeout, future))
        await answered(call, future, self.abandoned)
        return await self._slow.run_async(call.anew()) if call.would_wait else result_of(call, self.abandoned)

    def close(self) -> None:
        """Waits until running calls are answered, if their loop still runs."""
        self._is_closed = True
        for route in list(self._routes.values()):
            route.close(self._timeout)
        self._routes.clear()

    def hold_still(self) -> None:
        """A fork does not wait for running calls: the child never touches their connections."""

    def go_on(self) -> None:
        pass

    def be_forked(self) -> None:
        _inherited.append(self._routes)
        self._routes = {}
        self._is_closed = True

    def _open(self, loop: asyncio.AbstractEventLoop) -> _Route:
        self._slow.check_open()
        if self._is_closed:
            raise BrokerClosed("this broker is closed: connect again")
        for ended in [known for known in list(self._routes) if known.is_closed()]:
            left = self._routes.pop(ended, None)  # loops of other threads may be opening their routes at this moment
            if left is not None:
                left.close(0)
        route = self._routes[loop] = _Route(loop, self._make(), self._timeout, self.abandoned)
        return route


class _Route:
    """The calls of one kind in one loop. Everything except closing runs in the loop's own thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, perform: Perform, timeout: float, abandoned: Abandoned) -> None:
        self._loop = loop
        self._perform = perform
        self._abandoned = abandoned
        self._line = CallQueue(timeout)
        self._timeout = timeout
        self._watch: asyncio.TimerHandle | None = None
        self._gathered: list[PendingCall] = []
        self._bridge: GreenletBridge | None = None
        self._is_idle = threading.Event()
        self._is_idle.set()

    def join(self, pending: PendingCall) -> None:
        if not self._gathered:
            self._is_idle.clear()
            self._loop.call_soon(self._gather)  # at the end of this loop iteration, when all its calls have been gathered
        self._gathered.append(pending)

    def close(self, timeout: float) -> None:
        if not self._loop.is_running():
            if self._bridge is not None:
                self._bridge.abandon()
        elif not self._is_own_thread():  # waiting in the loop's own thread would block the running calls
            self._is_idle.wait(timeout)

    def _is_own_thread(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _gather(self) -> None:
        gathered, self._gathered = self._gathered, []
        try:
            with self._line.mutex:
                self._line.join(gathered)
        except RowqError as error:
            for pending in gathered:
                pending.call.error = error
            resolve(gathered, self._abandoned)
        if self._bridge is None:
            self._bridge = GreenletBridge(self._loop, self._run_batches)
            self._bridge.start()
        if self._line.waiting and self._watch is None:
            self._watch = self._loop.call_later(self._timeout, self._answer_late)

    def _answer_late(self) -> None:
        """While the database hangs, the running batch waits, but queued calls time out. Reschedules itself while calls are queued."""
        self._watch = None
        resolve(self._line.take_late(), self._abandoned)
        if self._line.waiting:
            self._watch = self._loop.call_later(LOOK_UP_EVERY, self._answer_late)

    def _run_batches(self) -> None:
        try:
            while self._line.waiting:
                self._run_batch()
        finally:
            self._bridge = None
            if self._line.waiting and not self._loop.is_closed():
                self._loop.call_soon(self._gather)  # this run was interrupted: the queued calls get another
            elif not self._gathered:
                self._is_idle.set()

    def _run_batch(self) -> None:
        batch, late = self._line.next_batch(max(FEW, (len(self._line.waiting) + 1) // 2))
        resolve(late, self._abandoned)
        if not batch:
            return
        try:
            perform_together(self._perform, batch)
        finally:
            self._line.remember(batch[-1].call.error)
            self._answer(batch)

    def _answer(self, batch: list[PendingCall]) -> None:
        if self._loop.is_closed():  # closed while its callers were waiting
            for pending in batch:
                self._abandoned(pending.call)
        else:
            resolve(batch, self._abandoned)


_inherited: list[dict[Any, Any]] = []
"""What a child of a fork inherited in progress. Destroying it would end the sessions in the parent's name."""
