"""The connections of one broker for event loops. A connection belongs to the loop that opened it."""

from __future__ import annotations

import asyncio
import os
import time

from rowq.client.address import Address
from rowq.client.async_connection import AsyncConnection, open_async_connection
from rowq.client.pool import FRESH
from rowq.errors import BrokerClosed

MOST_AT_WORK = 64
"""Maximum concurrent requests; further ones wait. Requests for which the server waits are not counted: they would block all others."""


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

    async def take(self, seconds: float, *, must_be_fresh: bool, is_waiting: bool) -> AsyncConnection:
        """A connection for one request, to be given back."""
        mine = self._mine()
        if not is_waiting:
            await mine.turn.acquire()
        try:
            self.check_open()
            connection = _rested(mine, must_be_fresh) or await open_async_connection(self._address, seconds)
            if self._is_closed:  # closed meanwhile
                connection.close()
            self.check_open()
        except BaseException:
            if not is_waiting:
                mine.turn.release()
            raise
        connection.is_waiting = is_waiting
        mine.in_use.add(connection)
        return connection

    def give_back(self, connection: AsyncConnection) -> None:
        """Keeps it for the next request if the response was read to its end. Closing it makes the server release what it had leased."""
        mine = self._mine()
        mine.in_use.discard(connection)
        if not connection.is_waiting:
            mine.turn.release()
        if connection.may_be_kept and not self._is_closed and len(mine.at_rest) < MOST_AT_WORK:
            connection.idle_since = time.monotonic()
            mine.at_rest.append(connection)
        else:
            connection.close()

    def drop(self, connection: AsyncConnection) -> None:
        connection.close()
        self.give_back(connection)

    def waiting(self) -> list[AsyncConnection]:
        return [connection for each in list(self._loops.values()) for connection in list(each.in_use) if connection.is_waiting]

    def check_open(self) -> None:
        if self._is_closed:
            raise BrokerClosed("this broker was closed: connect again")

    def close(self) -> None:
        """Closes idle connections at once, busy ones when their response has arrived; asks waiting receives to end."""
        self._is_closed = True
        if self._process != os.getpid():
            return
        for each in list(self._loops.values()):
            for connection in each.at_rest:
                connection.close_from_anywhere()
            each.at_rest.clear()
        for connection in self.waiting():
            connection.hurry_from_anywhere()

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
