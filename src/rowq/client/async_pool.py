"""The connections of one broker for event loops. A connection belongs to the loop that opened it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rowq.client.address import Address
from rowq.client.async_connection import AsyncConnection, open_async_connection
from rowq.client.pool import FRESH
from rowq.errors import BrokerClosed

MOST_AT_WORK = 64
"""Questions under way at once; more of them wait. Those for which the server waits are not counted: they would hold up all others."""


class _Loop:
    """What belongs to one event loop."""

    def __init__(self) -> None:
        self.at_rest: list[AsyncConnection] = []
        self.in_use: set[AsyncConnection] = set()
        self.turn = asyncio.Semaphore(MOST_AT_WORK)


class AsyncPool:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._loops: dict[asyncio.AbstractEventLoop, _Loop] = {}
        self._process = os.getpid()
        self._is_closed = False

    @asynccontextmanager
    async def connection(self, seconds: float, *, must_be_fresh: bool, is_waiting: bool) -> AsyncIterator[AsyncConnection]:
        """One to ask with. Whatever goes wrong, cancellation too, closes it: the server then gives back what it had leased."""
        mine = self._mine()
        if is_waiting:
            async with self._taken(mine, seconds, must_be_fresh) as connection:
                connection.is_waiting = True
                yield connection
        else:
            async with mine.turn, self._taken(mine, seconds, must_be_fresh) as connection:
                connection.is_waiting = False
                yield connection

    def check_open(self) -> None:
        if self._is_closed:
            raise BrokerClosed("this broker was closed: connect again")

    def close(self) -> None:
        """Whoever waits for messages is cut short; other questions are answered first."""
        self._is_closed = True
        if self._process != os.getpid():
            return
        for each in list(self._loops.values()):
            waiting = [connection for connection in list(each.in_use) if connection.is_waiting]
            for connection in (*each.at_rest, *waiting):
                connection.close_from_anywhere()
            each.at_rest.clear()

    @asynccontextmanager
    async def _taken(self, mine: _Loop, seconds: float, must_be_fresh: bool) -> AsyncIterator[AsyncConnection]:
        self.check_open()
        connection = _rested(mine, must_be_fresh) or await open_async_connection(self._address, seconds)
        mine.in_use.add(connection)
        try:
            self.check_open()
            yield connection
        except BaseException:
            connection.close()
            raise
        finally:
            mine.in_use.discard(connection)
        if connection.may_be_kept and not self._is_closed and len(mine.at_rest) < MOST_AT_WORK:
            connection.idle_since = time.monotonic()
            mine.at_rest.append(connection)
        else:
            connection.close()

    def _mine(self) -> _Loop:
        if self._process != os.getpid():
            self._loops, self._process = {}, os.getpid()
        loop = asyncio.get_running_loop()
        mine = self._loops.get(loop)
        if mine is None:
            for other in [other for other in self._loops if other.is_closed()]:
                del self._loops[other]
            mine = self._loops.setdefault(loop, _Loop())
        return mine


def _rested(mine: _Loop, must_be_fresh: bool) -> AsyncConnection | None:
    while mine.at_rest:
        connection = mine.at_rest.pop()
        if (not must_be_fresh or time.monotonic() - connection.idle_since < FRESH) and connection.is_quiet():
            return connection
        connection.close()
    return None
