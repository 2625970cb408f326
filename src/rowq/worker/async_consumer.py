"""A consumer in tasks: the same as in threads (consumer.py), for functions that run in the event loop."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, cast

from rowq.engine.engine import Engine
from rowq.engine.operation import take_each_async
from rowq.engine.waiting import LoopWait
from rowq.model.member import Membership
from rowq.model.message import Delivery
from rowq.worker.consumer_loop import ConsumerLoop
from rowq.worker.in_flight import Rest
from rowq.worker.plan import Plan, Process, insist_on_work


class AsyncConsumer:
    """Created by `broker.consumer(queue, process)` of an AsyncBroker. A function that is not a coroutine runs in a thread."""

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self._engine = engine
        self._plan = plan
        self._loop: ConsumerLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._keeper: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None

    @property
    def membership(self) -> Membership | None:
        return None if self._loop is None else self._loop.heartbeat.membership

    def is_lost(self, delivery: Delivery) -> bool:
        return self._loop is None or self._loop.in_flight.is_lost(delivery)

    async def start(self) -> Self:
        if self._loop is not None and self._loop.in_flight.is_stopping:
            await self.stop()
        if self._loop is None:
            self._engine.check_open()
            self._loop = loop = ConsumerLoop(self._engine, self._plan, LoopWait)
            self._pool = None if _is_coroutine(self._plan.process) else ThreadPoolExecutor(self._plan.concurrency, "rowq-consumer")
            self._tasks = [asyncio.create_task(self._work(loop), name="rowq-consumer") for _ in range(self._plan.concurrency)]
            self._keeper = threading.Thread(target=loop.keep_up, name="rowq-consumer", daemon=True)
            self._keeper.start()
        return self

    async def stop(self) -> None:
        loop = self._loop
        if loop is None:
            return
        loop.stop()
        if asyncio.current_task() not in self._tasks:
            await self._end(loop)

    async def run(self) -> None:
        """Runs until it is stopped or cancelled; messages in progress are finished first. In the main thread SIGTERM stops it too."""
        await self.start()
        with self._ended_by_signal():
            try:
                await asyncio.wait(self._tasks)
            finally:
                await self.stop()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    async def _end(self, loop: ConsumerLoop) -> None:
        await asyncio.wait(self._tasks)
        if self._keeper is not None:
            await asyncio.to_thread(self._keeper.join)
        if self._loop is not loop:
            return  # another task has stopped it
        if self._pool is not None:
            self._pool.shutdown(wait=False)
        self._loop = None
        if loop.failure is not None:
            raise loop.failure

    async def _work(self, loop: ConsumerLoop) -> None:
        drive = self._engine.driver.drive_async

        async def take(step: Any) -> Any:
            if type(step) is Delivery:
                return await self._handle(step)
            return await (cast(LoopWait, step.how).wait(step.seconds) if type(step) is Rest else drive(step))

        try:
            await take_each_async(loop.work(), take)
        except BaseException as error:
            loop.fail(error)
            if not isinstance(error, Exception):
                raise
        finally:
            loop.leave()

    async def _handle(self, delivery: Delivery) -> BaseException | None:
        try:
            if self._pool is None:
                answer = self._plan.process(delivery)
            else:
                answer, error = await asyncio.get_running_loop().run_in_executor(self._pool, _call, self._plan.process, delivery)
                if error is not None:
                    return error
            if inspect.isawaitable(answer):
                await answer
            else:
                insist_on_work(answer)
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return cancelled
        except (Exception, SystemExit) as raised:  # not Ctrl-C, which is raised wherever the loop is
            return raised
        return None

    @contextmanager
    def _ended_by_signal(self) -> Iterator[None]:
        """A program that handles SIGTERM itself is left alone."""
        is_ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if is_ours and self._loop is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._loop.stop)
        try:
            yield
        finally:
            if is_ours:
                asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)


def _call(process: Process, delivery: Delivery) -> tuple[object, BaseException | None]:
    """Returns what it raises: it concerns this message alone, and a future cannot carry every exception."""
    try:
        return process(delivery), None
    except BaseException as error:
        return None, error


def _is_coroutine(process: Process) -> bool:
    return inspect.iscoroutinefunction(process) or inspect.iscoroutinefunction(type(process).__call__)
