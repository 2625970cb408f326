"""The engine of a remote broker: its verbs become requests, and a driver that sends them takes the place of the database."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rowq.client.address import Address
from rowq.client.async_connection import AsyncConnection
from rowq.client.async_pool import AsyncPool
from rowq.client.connection import Connection
from rowq.client.exchange import Exchange
from rowq.client.http import Answer
from rowq.client.insights import RemoteInsights, RemoteMaintenance, RemoteMaintenanceTasks, examine
from rowq.client.pool import Pool
from rowq.client.retrying import Lost, Tries, unavailable
from rowq.client.verbs import RemoteVerbs
from rowq.engine.operation import Operation, Sleep, take_each, take_each_async
from rowq.errors import BrokerClosed

T = TypeVar("T")
_log = logging.getLogger("rowq.client")

RECALL = 2.0
"""Seconds to wait for the response to a cancelled receive."""


class RemoteEngine:
    """Has the interface of `rowq.engine.engine.Engine`, as far as a broker uses it."""

    def __init__(self, address: Address, timeout: float) -> None:
        self.driver = RemoteDriver(address, timeout)
        self.verbs = RemoteVerbs()
        self.insights = RemoteInsights(self.driver.stream)
        self.maintenance = RemoteMaintenance()
        self.maintenance_tasks = RemoteMaintenanceTasks()
        self.examine = examine
        self.check_open = self.driver.check_open
        self.close = self.driver.close
        self.close_async = self.driver.close_async


class RemoteDriver:
    """Sends requests, and repeats them where `retrying` says so, in a thread or in an event loop."""

    def __init__(self, address: Address, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._pool = Pool(address)
        self._async_pool = AsyncPool(address)
        self._closed = threading.Event()

    def drive(self, steps: Operation[T] | Exchange[T]) -> T:
        if isinstance(steps, Exchange):
            return self._ask(steps)
        return take_each(steps, lambda step: self._closed.wait(step.seconds) if isinstance(step, Sleep) else self._ask(step))

    async def drive_async(self, steps: Operation[T] | Exchange[T]) -> T:
        if isinstance(steps, Exchange):
            return await self._ask_async(steps)
        return await take_each_async(steps, lambda step: asyncio.sleep(step.seconds) if isinstance(step, Sleep) else self._ask_async(step))

    def stream(self, exchange: Exchange[None]) -> Iterator[bytes]:
        """The body of a response in chunks; once it has begun it is not requested again."""
        connection, pieces = self._begin(exchange)
        try:
            yield from pieces
        except Lost as lost:
            raise unavailable(self._address.name, lost) from None
        finally:
            self._pool.give_back(connection)

    def check_open(self) -> None:
        self._pool.check_open()

    def close(self) -> None:
        self._closed.set()
        self._async_pool.close()
        self._pool.close()

    async def close_async(self) -> None:
        """Waits for receives that are being cancelled."""
        self.close()
        until = time.monotonic() + RECALL
        while (waiting := self._async_pool.waiting()) and time.monotonic() < until:  # noqa: ASYNC110  # they belong to several loops
            await asyncio.sleep(0.002)
        for connection in waiting:
            connection.close_from_anywhere()
        await asyncio.sleep(0)  # lets the loop close its connections

    def _ask(self, exchange: Exchange[T]) -> T:
        tries = Tries(exchange, self._timeout, self._address.name)
        request = self._address.request(exchange)
        while True:
            try:
                connection = self._take(exchange, tries)
                try:
                    answer = self._answer(connection, exchange, request, tries.seconds)
                finally:
                    self._pool.give_back(connection)
            except (Lost, BrokerClosed) as lost:
                pause: float | None = tries.note_loss(lost, exchange.interrupt)
            else:
                pause = tries.judge(answer)
                if pause is None:
                    return exchange.result(answer, self._address.name)
            if pause:
                self._closed.wait(pause)

    async def _ask_async(self, exchange: Exchange[T]) -> T:
        tries = Tries(exchange, self._timeout, self._address.name)
        request = self._address.request(exchange)
        while True:
            try:
                connection = await self._async_pool.take(
                    tries.seconds_to_connect, must_be_fresh=exchange.needs_fresh, is_waiting=exchange.wait > 0
                )
                answer = await self._answer_async(connection, exchange, request, tries.seconds)
            except (Lost, BrokerClosed) as lost:
                pause: float | None = tries.note_loss(lost, exchange.interrupt)
            else:
                pause = tries.judge(answer)
                if pause is None:
                    return exchange.result(answer, self._address.name)
            if pause:
                await asyncio.sleep(pause)

    def _answer(self, connection: Connection, exchange: Exchange[Any], request: bytes, seconds: float) -> Answer:
        if exchange.undo is None:
            return connection.ask(request, seconds)
        answer: Answer | None = None
        try:
            answer = connection.ask(request, seconds, exchange.interrupt)
            self._pool.check_open()  # the caller of a closed broker could not settle the deliveries
        except Lost:
            raise
        except BaseException:  # Ctrl-C, most likely
            with _telling():
                undo = exchange.undo(connection.recall(RECALL) if answer is None else answer)
                if undo is not None:
                    undo.result(connection.ask(self._address.request(undo), RECALL), self._address.name)
            raise
        return answer

    async def _answer_async(self, connection: AsyncConnection, exchange: Exchange[Any], request: bytes, seconds: float) -> Answer:
        try:
            answer = await connection.ask(request, seconds, exchange.interrupt)
            if exchange.undo is not None:
                self._async_pool.check_open()
        except (asyncio.CancelledError, BrokerClosed):
            if exchange.undo is None:
                self._async_pool.drop(connection)
            else:
                await self._recall(connection, exchange.undo)
            raise
        except BaseException:
            self._async_pool.drop(connection)
            raise
        self._async_pool.give_back(connection)
        return answer

    async def _recall(self, connection: AsyncConnection, undo: Callable[[Answer], Exchange[Any] | None]) -> None:
        """After a cancelled receive: releases what the server may have delivered by now. If the response does not come soon, as behind a
        proxy, the connection is closed, and the server releases what it leases later."""

        async def give_back() -> None:
            with _telling():
                back = undo(await connection.recall(RECALL))
                if back is not None:
                    back.result(await connection.ask(self._address.request(back), RECALL), self._address.name)

        task = asyncio.create_task(give_back())
        try:
            await asyncio.wait({task})  # a second cancellation does not stop it
        finally:
            task.add_done_callback(lambda _: self._async_pool.give_back(connection))

    def _begin(self, exchange: Exchange[None]) -> tuple[Connection, Iterator[bytes]]:
        """A stream whose head has arrived with a good status."""
        tries = Tries(exchange, self._timeout, self._address.name)
        while True:
            try:
                connection = self._take(exchange, tries)
                try:
                    pieces = connection.stream(self._address.request(exchange), tries.seconds)
                    next(pieces)
                    if connection.status < 300:
                        return connection, pieces
                    answer = connection.rest(pieces)
                except BaseException:
                    self._pool.drop(connection)
                    raise
                self._pool.give_back(connection)
            except Lost as lost:
                pause: float | None = tries.note_loss(lost)
            else:
                pause = tries.judge(answer)
                if pause is None:
                    exchange.result(answer, self._address.name)  # raises
            if pause:
                self._closed.wait(pause)

    def _take(self, exchange: Exchange[Any], tries: Tries) -> Connection:
        connection = self._pool.take(tries.seconds_to_connect, must_be_fresh=exchange.needs_fresh)
        connection.is_waiting = exchange.wait > 0
        connection.is_asked = False
        return connection


@contextmanager
def _telling() -> Iterator[None]:
    """Wraps giving messages back: if that fails, it is logged, and their leases expire."""
    try:
        yield
    except Lost as lost:
        if lost.may_have_arrived:
            _log.info("the response to a cancelled receive did not arrive: %s", lost)
    except Exception as error:
        _log.warning("messages of a cancelled receive stay leased until their leases expire: %s", error)
