"""Verbs as steps: each verb is written once, as one call or as a generator of the things it waits for, for threads and event loops.

    def receive(…):
        rows = yield Receive(…)        # a call: performed with others, in one transaction
        woken = yield Wait(…)          # patience

A step's answer is sent back in; its error is thrown in.
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
    """A verb that is one call, and what to make of its answer: no steps, and no generator to pay for."""

    __slots__ = ("call", "shape")

    def __init__(self, call: Call[A], shape: Callable[[A], T]) -> None:
        self.call = call
        self.shape = shape


class Enter:
    """Goes into the waiting room of a topic; gives a `Ticket`."""

    def __init__(self, topic: str) -> None:
        self.topic = topic


class Ticket:
    """A place in the waiting room, and the way its holder waits there."""

    def __init__(self, waiter: Waiter, how: ThreadWait | LoopWait) -> None:
        self.waiter = waiter
        self.how = how


class Wait:
    """Waits at most so many seconds to be woken."""

    def __init__(self, ticket: Ticket, seconds: float) -> None:
        self.ticket = ticket
        self.seconds = seconds


class Sleep:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Read:
    """A question to the reading side, which may take a while."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function


def nothing(answer: T) -> Operation[T]:
    """A verb for which there is nothing to ask: it has its answer."""
    return answer
    yield  # makes it a generator


@contextmanager
def in_pieces(done: Callable[[], int], noun: str) -> Iterator[None]:
    """Around what takes many transactions. An error that says of the last one that nothing was done cannot say it of the whole."""
    try:
        yield
    except RowqError as error:
        if not (count := done()):
            raise
        raise OutcomeUnknown(f"it was broken off after {count} {noun}, which are done; the rest may or may not be [{error}]") from error


def take_each(steps: Operation[T], take: Callable[[Any], Any]) -> T:
    """Takes one step after another, and gives what they come to."""
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
    """Takes steps, in a thread or in an event loop."""

    def __init__(self, group_commit: GroupCommit | ExecutorPool, room: WaitingRoom) -> None:
        self._group_commit = group_commit
        self._room = room
        self.perform = group_commit.run_async
        """One call, for whoever makes its own."""

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
