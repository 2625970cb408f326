"""How the server waits for slow bodies and for messages, while it watches whether the client is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from rowq.server.http.asgi import Receive

T = TypeVar("T")


class ClientGone(Exception):
    """The client has disconnected."""


class Stopwatch:
    """Ends requests whose body does not arrive. One check per second for all of them costs less than a timer for each."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def time(self, awaitable: Awaitable[T]) -> T:
        """Raises TimeoutError if it takes too long."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is None:
            return await awaitable
        self._since[task] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(min(1.0, self._seconds), self._look)
        try:
            return await awaitable
        except asyncio.CancelledError:
            if task in self._late and task.uncancel() == 0:
                raise TimeoutError from None
            raise
        finally:
            self._since.pop(task, None)
            self._late.discard(task)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(min(1.0, self._seconds), self._look) if self._since else None
        for task, since in list(self._since.items()):
            if loop.time() - since > self._seconds:
                self._late.add(task)
                task.cancel()


async def first_of(work: Awaitable[T], receive: Receive, stop: asyncio.Event) -> T | None:
    """The result of `work`; None if the server stops before. Cancels it and raises ClientGone if the client leaves."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    stopped = asyncio.ensure_future(stop.wait())
    others = (gone, stopped)
    try:
        await asyncio.wait((task, *others), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        await _end(task)
        if task.cancelled():
            if gone.done():
                raise ClientGone
            return None
        return task.result()
    finally:
        for other in (task, *others):
            other.cancel()


def is_gone(receive: Receive) -> bool:
    """Whether the client has left, without waiting: after the whole body, only a disconnect can be received."""
    question = receive()
    try:
        question.send(None)  # type: ignore[attr-defined]  # an ASGI server returns a coroutine
    except StopIteration as answer:
        return bool(answer.value["type"] == "http.disconnect")
    question.close()  # type: ignore[attr-defined]
    return False


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancels, and waits until the task has released what it holds. It may finish instead."""
    task.cancel()
    await asyncio.wait((task,))
