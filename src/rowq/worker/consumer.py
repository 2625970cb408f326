"""A consumer in threads: calls a function for each message of a queue."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from rowq.engine.engine import Engine
from rowq.engine.operation import take_each
from rowq.engine.waiting import ThreadWait
from rowq.model.member import Membership
from rowq.model.message import Delivery
from rowq.worker.consumer_loop import ConsumerLoop
from rowq.worker.in_flight import Rest
from rowq.worker.plan import Plan, insist_on_work


class Consumer:
    """Created by `broker.consumer(queue, process)`.

    >>> consumer = broker.consumer("emails", lambda delivery: send_email(delivery.payload))  # doctest: +SKIP
    >>> consumer.run()  # doctest: +SKIP
    """

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self._engine = engine
        self._plan = plan
        self._loop: ConsumerLoop | None = None
        self._threads: list[threading.Thread] = []

    @property
    def membership(self) -> Membership | None:
        """Its place among the consumers of its queue; None while it is not registered."""
        return None if self._loop is None else self._loop.heartbeat.membership

    def is_lost(self, delivery: Delivery) -> bool:
        """Whether the lease of the message is lost, so that a function still processing it may as well stop."""
        return self._loop is None or self._loop.in_flight.is_lost(delivery)

    def start(self) -> Self:
        """Starts in threads of its own."""
        if self._loop is not None and self._loop.in_flight.is_stopping:
            self.stop()
        if self._loop is None:
            self._engine.check_open()
            self._loop = loop = ConsumerLoop(self._engine, self._plan, ThreadWait)
            targets = [loop.keep_up, *[lambda: self._work(loop)] * self._plan.concurrency]
            self._threads = [threading.Thread(target=target, name="rowq-consumer", daemon=True) for target in targets]
            for thread in self._threads:
                thread.start()
        return self

    def stop(self) -> None:
        """Finishes and settles what is in progress; returns the rest uncounted. Raises the error that made it stop by itself, if there was
        one."""
        loop, threads = self._loop, self._threads
        if loop is None:
            return
        loop.stop()
        if threading.current_thread() in threads:
            return
        for thread in threads:
            thread.join()
        if self._loop is loop:  # else another thread has stopped it
            self._loop = None
            if loop.failure is not None:
                raise loop.failure

    def run(self) -> None:
        """Runs until it is stopped. In the main thread SIGTERM stops it too, and so does Ctrl-C, which is then raised."""
        with _EndedBySignal() as signals:
            loop = self.start()._loop
            if loop is None:
                return  # another thread has already stopped it
            try:
                signals.obey(loop)
                loop.has_ended.wait()  # not join: Python considers a thread dead if an interrupt hits the thread that joins it
            finally:
                self.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _work(self, loop: ConsumerLoop) -> None:
        with _Handler(self._plan) as handler:
            drive = self._engine.driver.drive

            def take(step: Any) -> Any:
                if type(step) is Delivery:
                    return handler.handle(step)
                return step.how.wait(step.seconds) if type(step) is Rest else drive(step)

            try:
                take_each(loop.work(), take)
            except BaseException as error:
                loop.fail(error)
            finally:
                loop.leave()


class _Handler:
    """Calls the function; a coroutine runs in an event loop of the thread."""

    def __init__(self, plan: Plan) -> None:
        self._process = plan.process
        self._runner: asyncio.Runner | None = None

    def handle(self, delivery: Delivery) -> BaseException | None:
        try:
            answer = self._process(delivery)
            if answer is not None and inspect.isawaitable(answer):
                self._runner = self._runner or asyncio.Runner()
                self._runner.run(_awaited(answer))
            else:
                insist_on_work(answer)
        except BaseException as error:  # whatever it is, it concerns this message alone
            return error
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._runner is not None:
            self._runner.close()


async def _awaited(answer: Any) -> None:
    await answer


class _ToldToEnd(BaseException):
    """SIGTERM came."""


class _EndedBySignal:
    """SIGTERM ends the block once the consumer has started; an earlier one is remembered. A program that handles SIGTERM itself is left
    alone. A second SIGTERM does not interrupt messages in progress."""

    def __init__(self) -> None:
        self._loop: ConsumerLoop | None = None
        self._is_told = self._has_ended = False

    def obey(self, loop: ConsumerLoop) -> None:
        self._loop = loop
        if self._is_told:
            self._end()

    def __enter__(self) -> Self:
        self._is_ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._is_ours:
            signal.signal(signal.SIGTERM, self._hear)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if self._is_ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return isinstance(error, _ToldToEnd)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._is_told = True
        if self._loop is not None:
            self._end()

    def _end(self) -> None:
        if not self._has_ended and self._loop is not None and not self._loop.in_flight.is_stopping:
            self._has_ended = True
            raise _ToldToEnd
