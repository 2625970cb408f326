"""Operations: each verb is written once, as one call or as a generator of the things it waits for, for threads and event loops.

    def receive(…):
        rows = yield Receive(…)        # a call: performed with others, in one transaction
        woken = yield Wait(…)          # waits to be woken

The result of a step is sent back into the generator; its error is thrown into it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from rowq.engine.executor_pool import ExecutorPool
from rowq.engine.group_commit import GroupCommit
from rowq.engine.waiting import LoopWait, ThreadWait, Waiter, WaitingRoom
from rowq.errors import OutcomeUnknown, RowqError
from rowq.store.call import Call

A = TypeVar("A")
T = TypeVar("T")
Operation = Generator[Any, Any, T]


class SingleCall(Generic[A, T]):
    """A verb that is one call, and a function for its result. Saves the cost of a generator."""

    __slots__ = ("call", "shape")

    def __init__(self, call: Call[A], shape: Callable[[A], T]) -> None:
        self.call = call
        self.shape = shape


class Enter:
    """Enters the waiting room of a topic; gives a `Ticket`."""

    def __init__(self, topic: str) -> None:
        self.topic = topic


class Ticket:
    """A place in the waiting room, and how its holder waits."""

    def __init__(self, waiter: Waiter, how: ThreadWait | LoopWait) -> None:
        self.waiter = waiter
        self.how = how


class Wait:
    """Waits at most this many seconds to be woken."""

    def __init__(self, ticket: Ticket, seconds: float) -> None:
        self.ticket = ticket
        self.seconds = seconds


class Sleep:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Read:
    """A query to the reading side, which may take a while."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function


def nothing(answer: T) -> Operation[T]:
    """An operation whose result is already known."""
    return answer
    yield  # makes it a generator


@contextmanager
def in_pieces(done: Callable[[], int], noun: str) -> Iterator[None]:
    """Wraps many transactions: when one fails with nothing written, the earlier ones are still done, and the error has to say so."""
    try:
        yield
    except RowqError as error:
        if not (count := done()):
            raise
        raise OutcomeUnknown(f"it stopped after {count} {noun}, which are done; the rest may or may not be [{error}]") from error


def take_each(steps: Operation[T], take: Callable[[Any], Any]) -> T:
    """Runs one step after another, and returns the result."""
    try:
        step = next(steps)
        while True:
            try:
                answer = take(step)
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def take_each_async(steps: Operation[T], take: Callable[[Any], Awaitable[Any]]) -> T:
    """The same for an event loop."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await take(step)
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


class Driver:
    """Runs operations, in a thread or in an event loop."""

    def __init__(self, group_commit: GroupCommit | ExecutorPool, room: WaitingRoom) -> None:
        self._group_commit = group_commit
        self._room = room
        self.perform = group_commit.run_async
        """Performs one call that the caller has built."""

    def drive(self, steps: Operation[T] | SingleCall[Any, T]) -> T:
        if isinstance(steps, SingleCall):
            return steps.shape(self._group_commit.run(steps.call))
        return take_each(steps, self._take)

    async def drive_async(self, steps: Operation[T] | SingleCall[Any, T], actor: str | None = None) -> T:
        """`actor`: on whose behalf, for the audit."""
        if isinstance(steps, SingleCall):
            steps.call.actor = actor
            return steps.shape(await self._group_commit.run_async(steps.call))
        return await take_each_async(steps, lambda step: self._take_async(step, actor))

    def _take(self, step: Any) -> Any:
        if isinstance(step, Call):
            return self._group_commit.run(step)
        match step:
            case Read(function=function):
                self._group_commit.check_open()
                return function()
            case Enter(topic=topic):
                how = ThreadWait()
                return Ticket(self._room.enter(topic, how.wake), how)
            case Wait(ticket=Ticket(how=ThreadWait() as how), seconds=seconds):
                return how.wait(seconds)
            case Sleep(seconds=seconds):
                return time.sleep(seconds)
        raise AssertionError(f"no such step: {step!r}")

    async def _take_async(self, step: Any, actor: str | None) -> Any:
        if isinstance(step, Call):
            step.actor = actor
            return await self._group_commit.run_async(step)
        match step:
            case Read(function=function):
                self._group_commit.check_open()
                return await asyncio.to_thread(function)
            case Enter(topic=topic):
                how = LoopWait()
                return Ticket(self._room.enter(topic, how.wake), how)
            case Wait(ticket=Ticket(how=LoopWait() as how), seconds=seconds):
                return await how.wait(seconds)
            case Sleep(seconds=seconds):
                return await asyncio.sleep(seconds)
        raise AssertionError(f"no such step: {step!r}")
