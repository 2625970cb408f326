"""Flights: code that waits, inside an event loop that must not.

The store is written plainly: it asks the database and waits for the answer. A thread may do that; a loop would stand still. In a
flight, which is a greenlet, the same code goes back to its loop wherever it would wait, and is continued when what it waits for is
there. So the calls of a loop need no other thread, and nobody queues for the interpreter's lock on the way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")


class Closable(Protocol):
    def close(self) -> None: ...


class Flight(greenlet):
    def __init__(self, loop: asyncio.AbstractEventLoop, run: Callable[[], None]) -> None:
        super().__init__(run)
        self._loop = loop
        self._stop = 0
        """How often it has waited: what continues an earlier stop comes too late."""
        self._holding: Closable | None = None

    def take_off(self) -> None:
        """Returns as soon as it waits for the first time, or has ended."""
        self._go_on(self._stop)

    def wait_for_socket(self, socket: int, holding: Closable, *, to_write: bool = False) -> None:
        """Until it can be read, or else written. `holding`: what is to be closed should the loop end before."""
        self._holding = holding
        arrived = self._next_stop()
        self._loop.add_reader(socket, arrived)
        if to_write:
            self._loop.add_writer(socket, arrived)
        try:
            self._wait()
        finally:
            self._holding = None
            self._loop.remove_reader(socket)
            if to_write:
                self._loop.remove_writer(socket)

    def wait_for_thread(self, function: Callable[[], T]) -> T:
        """What takes a while and does not know of flights is done by a thread."""
        future = self._loop.run_in_executor(None, function)
        arrived = self._next_stop()
        future.add_done_callback(lambda _: arrived())
        self._wait()
        return future.result()

    def wait_for_time(self, seconds: float) -> None:
        self._loop.call_later(seconds, self._next_stop())
        self._wait()

    def abandon(self) -> None:
        """Its loop has ended, and nothing will continue it: what it holds is closed."""
        if self._holding is not None:
            self._holding.close()

    def _next_stop(self) -> Callable[[], None]:
        self._stop += 1
        stop = self._stop
        return lambda: self._go_on(stop)

    def _wait(self) -> None:
        self.parent.switch()  # type: ignore[union-attr]  # a flight always has one

    def _go_on(self, stop: int) -> None:
        if stop == self._stop:
            self.parent = getcurrent()
            self.switch()


def current() -> Flight | None:
    """The one that this code is in."""
    here: Any = getcurrent()
    return here if isinstance(here, Flight) else None


def slowly(function: Callable[[], T]) -> T:
    """What waits by itself, wherever it is called."""
    flight = current()
    return function() if flight is None else flight.wait_for_thread(function)


def pause(seconds: float) -> None:
    flight = current()
    if flight is None:
        time.sleep(seconds)
    else:
        flight.wait_for_time(seconds)
