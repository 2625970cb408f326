"""What stands in a remote broker where an engine stands in one that has the database in process: verbs that ask, and who asks for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

from rowq.client.address import Address
from rowq.client.async_pool import AsyncPool
from rowq.client.connection import Connection
from rowq.client.exchange import Exchange
from rowq.client.insights import RemoteInsights, RemoteSweeps, RemoteUpkeep, examine
from rowq.client.pool import Pool
from rowq.client.retrying import Lost, Tries, unavailable
from rowq.client.verbs import RemoteVerbs
from rowq.errors import BrokerClosed
from rowq.steps import Sleep, Steps, take_each, take_each_async

T = TypeVar("T")


class RemoteEngine:
    """In the shape of `rowq.engine.Engine`, as far as a broker uses it."""

    def __init__(self, address: Address, timeout: float) -> None:
        self.driver = RemoteDriver(address, timeout)
        self.verbs = RemoteVerbs()
        self.insights = RemoteInsights(self.driver.stream)
        self.upkeep = RemoteUpkeep()
        self.sweeps = RemoteSweeps()
        self.examine = examine
        self.check_open = self.driver.check_open
        self.close = self.driver.close


class RemoteDriver:
    """Asks, and asks again where `retrying` says so, in a thread or in an event loop."""

    def __init__(self, address: Address, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._pool = Pool(address)
        self._async_pool = AsyncPool(address)
        self._closed = threading.Event()

    def drive(self, steps: Steps[T] | Exchange[T]) -> T:
        if isinstance(steps, Exchange):
            return self._ask(steps)
        return take_each(steps, lambda step: self._closed.wait(step.seconds) if isinstance(step, Sleep) else self._ask(step))

    async def drive_async(self, steps: Steps[T] | Exchange[T]) -> T:
        if isinstance(steps, Exchange):
            return await self._ask_async(steps)
        return await take_each_async(steps, lambda step: asyncio.sleep(step.seconds) if isinstance(step, Sleep) else self._ask_async(step))

    def stream(self, exchange: Exchange[None]) -> Iterator[bytes]:
        """The body of an answer, piece by piece; once it has begun it is not asked for again."""
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
        self._pool.close()
        self._async_pool.close()

    def _ask(self, exchange: Exchange[T]) -> T:
        tries = Tries(exchange, self._timeout, self._address.name)
        request = self._address.request(exchange)
        while True:
            try:
                connection = self._take(exchange, tries)
                try:
                    answer = connection.ask(request, tries.seconds)
                finally:
                    self._pool.give_back(connection)
            except (Lost, BrokerClosed) as lost:
                pause: float | None = tries.mourn(lost)
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
                async with self._async_pool.connection(
                    tries.seconds_to_connect, must_be_fresh=exchange.needs_fresh, is_waiting=exchange.wait > 0
                ) as connection:
                    answer = await connection.ask(request, tries.seconds)
            except (Lost, BrokerClosed) as lost:
                pause: float | None = tries.mourn(lost)
            else:
                pause = tries.judge(answer)
                if pause is None:
                    return exchange.result(answer, self._address.name)
            if pause:
                await asyncio.sleep(pause)

    def _begin(self, exchange: Exchange[None]) -> tuple[Connection, Iterator[bytes]]:
        """A stream whose head is there, and says that all is well."""
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
                pause: float | None = tries.mourn(lost)
            else:
                pause = tries.judge(answer)
                if pause is None:
                    exchange.result(answer, self._address.name)  # raises
            if pause:
                self._closed.wait(pause)

    def _take(self, exchange: Exchange[Any], tries: Tries) -> Connection:
        connection = self._pool.take(tries.seconds_to_connect, must_be_fresh=exchange.needs_fresh)
        connection.is_waiting = exchange.wait > 0
        return connection
