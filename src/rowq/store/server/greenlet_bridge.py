"""The greenlet bridge: runs blocking code on an event loop without blocking it.

The store is synchronous: it sends a query and waits for the answer. A thread may do that; an event loop would stand still. In a greenlet
the same code switches to its loop wherever it would wait, and continues when what it waits for is there. So calls from a loop need no
other thread and do not compete for the interpreter lock.
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
        """The number of the current wait: a wake-up for an earlier one is ignored."""
        self._holding: Closable | None = None
        self._awaited: asyncio.Future[Any] | None = None
        self._is_cancelled = False
        self.others = 0.0
        """Seconds of CPU time that the thread spent on other work while this greenlet waited."""

    def start(self) -> None:
        """Returns when the greenlet waits for the first time, or has ended."""
        self._go_on(self._stop)

    def wait_for_socket(self, socket: int, holding: Closable, *, to_write: bool = False, at_most: float | None = None) -> None:
        """Waits until the socket is readable, or writable with `to_write`, or `at_most` seconds are over. `holding` is closed if the loop
        ends before."""
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
        """Runs a blocking function in a thread. `unwanted` gets its result if the greenlet no longer waits for it. The thread is a new one:
        those of the loop's executor may all be waiting for this very call."""
        errand = self._holding = _Errand(function, unwanted)
        arrived = self._next_stop()
        threading.Thread(target=errand.run, args=(self._loop, arrived), name="rowq-greenlet", daemon=True).start()
        try:
            self._wait()
        except BaseException:
            errand.close()
            raise
        finally:
            self._holding = None
        return errand.future.result()

    def wait_for(self, awaitable: Awaitable[T], *, shielded: bool) -> T:
        """Waits for a task of the loop, which `cancel` may end early unless it is shielded."""
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
        """Cancels what the greenlet awaits now, or else next; shielded cleanup is not cancelled."""
        self._is_cancelled = self._awaited is None or not self._awaited.cancel()

    def wait_for_time(self, seconds: float) -> None:
        self._loop.call_later(seconds, self._next_stop())
        self._wait()

    def abandon(self) -> None:
        """The loop does not run: closes what the greenlet holds. If the loop runs again, the greenlet notices it and fails its calls."""
        if self._holding is not None:
            self._holding.close()
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._go_on, self._stop)

    def _next_stop(self) -> Callable[[], None]:
        self._stop += 1
        stop = self._stop
        return lambda: self._go_on(stop)

    def _wait(self) -> None:
        worked = time.thread_time()
        self.parent.switch()  # type: ignore[union-attr]  # a running bridge always has one
        self.others += time.thread_time() - worked

    def _go_on(self, stop: int) -> None:
        if stop == self._stop:
            self.parent = getcurrent()
            self.switch()


class _Errand(Generic[T]):
    """What a thread does for a greenlet."""

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
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(arrived)

    def close(self) -> None:
        """The greenlet no longer waits for the result."""
        if not self.future.cancel() and not self.future.cancelled() and self.future.exception() is None:
            self._unwanted(self.future.result())


async def run_in_greenlet(function: Callable[[], T]) -> T:
    """Runs the function in a greenlet and returns its result. A cancellation reaches what the greenlet awaits, and is raised after cleanup:
    until then a connection may be in the middle of an answer."""
    result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:
            result.set_exception(error)

    bridge = GreenletBridge(result.get_loop(), run)
    bridge.gr_context = contextvars.copy_context()
    bridge.start()
    cancelled: asyncio.CancelledError | None = None
    while not result.done():
        try:
            await asyncio.wait([result])
        except asyncio.CancelledError as error:
            if cancelled is None:
                bridge.cancel()
            cancelled = error
    if cancelled is not None:
        result.exception()  # marks it as retrieved
        raise cancelled
    return result.result()


def finished(answer: Any, *, shielded: bool = False) -> Any:
    """The driver's answer, awaited if its connection belongs to an event loop."""
    bridge = current()
    return bridge.wait_for(answer, shielded=shielded) if bridge is not None and inspect.isawaitable(answer) else answer


def current() -> GreenletBridge | None:
    """The bridge that this code runs in."""
    here: Any = getcurrent()
    return here if isinstance(here, GreenletBridge) else None


def others_ms() -> int:
    """Time spent waiting not for an answer, but for a loop that was busy with other work."""
    bridge = current()
    return 0 if bridge is None else int(bridge.others * 1000)


def slowly(function: Callable[[], T], unwanted: Callable[[T], None] = lambda result: None) -> T:
    """Runs a blocking function, in a thread if called in a bridge. `unwanted` gets the result if the loop has ended before it came."""
    bridge = current()
    return function() if bridge is None else bridge.wait_for_thread(function, unwanted)


def pause(seconds: float) -> None:
    bridge = current()
    if bridge is None:
        time.sleep(seconds)
    else:
        bridge.wait_for_time(seconds)
