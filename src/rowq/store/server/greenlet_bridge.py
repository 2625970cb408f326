"""Flights: code that waits, inside an event loop that must not.

The store is written plainly: it asks the database and waits for the answer. A thread may do that; a loop would stand still. In a
flight, which is a greenlet, the same code goes back to its loop wherever it would wait, and is continued when what it waits for is
there. So the calls of a loop need no other thread, and nobody queues for the interpreter's lock on the way.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")


class Closable(Protocol):
    def close(self) -> None: ...


class GreenletBridge(greenlet):
    def __init__(self, loop: asyncio.AbstractEventLoop, run: Callable[[], None]) -> None:
        super().__init__(run)
        self._loop = loop
        self._stop = 0
        """How often it has waited: what continues an earlier stop comes too late."""
        self._holding: Closable | None = None
        self._awaited: asyncio.Future[Any] | None = None
        self._is_cancelled = False
        self.others = 0.0
        """Seconds that the thread has worked for others, while this one waited."""

    def take_off(self) -> None:
        """Returns as soon as it waits for the first time, or has ended."""
        self._go_on(self._stop)

    def wait_for_socket(self, socket: int, holding: Closable, *, to_write: bool = False, at_most: float | None = None) -> None:
        """Until it can be read, or else written, or so many seconds are over. `holding`: what is to be closed should the loop end
        before."""
        self._holding = holding
        arrived = self._next_stop()
        self._loop.add_reader(socket, arrived)
        if to_write:
            self._loop.add_writer(socket, arrived)
        timer = None if at_most is None else self._loop.call_later(at_most, arrived)
        try:
            self._wait()
        finally:
            self._holding = None
            self._loop.remove_reader(socket)
            if to_write:
                self._loop.remove_writer(socket)
            if timer is not None:
                timer.cancel()

    def wait_for_thread(self, function: Callable[[], T], unwanted: Callable[[T], None]) -> T:
        """What takes a while and does not know of flights is done by a thread. `unwanted` gets what it brings when nobody waits for it
        any more. The thread is its own: those of the loop may all be waiting for the very call that is on its way here."""
        errand = self._holding = _Errand(function, unwanted)
        arrived = self._next_stop()
        threading.Thread(target=errand.run, args=(self._loop, arrived), name="rowq-flight", daemon=True).start()
        try:
            self._wait()
        except BaseException:
            errand.close()
            raise
        finally:
            self._holding = None
        return errand.future.result()

    def wait_for(self, awaitable: Awaitable[T], *, shielded: bool) -> T:
        """Until a task of the loop has done it, or `cancel` has ended that early. What is shielded is done in any case."""
        task = asyncio.ensure_future(awaitable, loop=self._loop)
        if not shielded:
            self._awaited = task
            if self._is_cancelled:
                self.cancel()
        arrived = self._next_stop()
        task.add_done_callback(lambda _: arrived())
        try:
            self._wait()
        finally:
            self._awaited = None
        return task.result()

    def cancel(self) -> None:
        """What it awaits now, or else next, is cancelled; what it awaits in order to clean up is not."""
        self._is_cancelled = self._awaited is None or not self._awaited.cancel()

    def wait_for_time(self, seconds: float) -> None:
        self._loop.call_later(seconds, self._next_stop())
        self._wait()

    def abandon(self) -> None:
        """Its loop does not run: what it holds is closed. Should the loop go on some day, it finds that out and tells its callers."""
        if self._holding is not None:
            self._holding.close()
            with suppress(RuntimeError):  # the loop has ended for good
                self._loop.call_soon_threadsafe(self._go_on, self._stop)

    def _next_stop(self) -> Callable[[], None]:
        self._stop += 1
        stop = self._stop
        return lambda: self._go_on(stop)

    def _wait(self) -> None:
        worked = time.thread_time()
        self.parent.switch()  # type: ignore[union-attr]  # a flight always has one
        self.others += time.thread_time() - worked

    def _go_on(self, stop: int) -> None:
        if stop == self._stop:
            self.parent = getcurrent()
            self.switch()


class _Errand(Generic[T]):
    """What a thread does for a flight."""

    def __init__(self, function: Callable[[], T], unwanted: Callable[[T], None]) -> None:
        self.future: Future[T] = Future()
        self._function = function
        self._unwanted = unwanted

    def run(self, loop: asyncio.AbstractEventLoop, arrived: Callable[[], None]) -> None:
        try:
            result = self._function()
        except BaseException as error:
            with suppress(InvalidStateError):
                self.future.set_exception(error)
        else:
            try:
                self.future.set_result(result)
            except InvalidStateError:
                self._unwanted(result)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(arrived)

    def close(self) -> None:
        """Nobody waits for it any more."""
        if not self.future.cancel() and not self.future.cancelled() and self.future.exception() is None:
            self._unwanted(self.future.result())


async def fly(function: Callable[[], T]) -> T:
    """Does it in a flight, and gives what it returns. A cancellation reaches what the flight awaits, and is told when that has cleaned up:
    until then a connection may be amid an answer."""
    landed: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def run() -> None:
        try:
            landed.set_result(function())
        except BaseException as error:
            landed.set_exception(error)

    bridge = GreenletBridge(landed.get_loop(), run)
    bridge.gr_context = contextvars.copy_context()
    bridge.take_off()
    cancelled: asyncio.CancelledError | None = None
    while not landed.done():
        try:
            await asyncio.wait([landed])
        except asyncio.CancelledError as error:
            if cancelled is None:
                bridge.cancel()
            cancelled = error
    if cancelled is not None:
        landed.exception()  # is of no interest any more
        raise cancelled
    return landed.result()


def finished(answer: Any, *, shielded: bool = False) -> Any:
    """What a driver gives: the answer itself, or, where its connection belongs to an event loop, something to await."""
    bridge = current()
    return bridge.wait_for(answer, shielded=shielded) if bridge is not None and inspect.isawaitable(answer) else answer


def current() -> GreenletBridge | None:
    """The one that this code is in."""
    here: Any = getcurrent()
    return here if isinstance(here, GreenletBridge) else None


def others_ms() -> int:
    """Time that was not spent waiting for an answer, but for a loop that was busy with something else."""
    bridge = current()
    return 0 if bridge is None else int(bridge.others * 1000)


def slowly(function: Callable[[], T], unwanted: Callable[[T], None] = lambda result: None) -> T:
    """What waits by itself, wherever it is called. `unwanted`: what becomes of a result when the loop has ended before it came."""
    bridge = current()
    return function() if bridge is None else bridge.wait_for_thread(function, unwanted)


def pause(seconds: float) -> None:
    bridge = current()
    if bridge is None:
        time.sleep(seconds)
    else:
        bridge.wait_for_time(seconds)
