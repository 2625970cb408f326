"""One connection to a server, for event loops."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from rowq.client.address import Address
from rowq.client.connection import HURRY, tune, unreached
from rowq.client.http import Answer, Garbled, Reader
from rowq.client.retrying import Lost
from rowq.engine.waiting import Interrupt


async def open_async_connection(address: Address, seconds: float) -> AsyncConnection:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            _, connection = await loop.create_connection(AsyncConnection, address.host, address.port, ssl=address.tls)
    except TimeoutError:
        raise Lost("it took too long to connect", may_have_arrived=False) from None
    except OSError as error:
        raise unreached(error) from None
    return connection


class AsyncConnection(asyncio.Protocol):
    def __init__(self) -> None:
        self._reader = Reader()
        self._is_new = True
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[Answer] | None = None
        self._is_asked = False
        """A request is open: its response is read even while no caller waits for it."""
        self.idle_since = 0.0
        self.is_waiting = False

    async def ask(self, request: bytes, seconds: float, interrupt: Interrupt | None = None) -> Answer:
        """Raises Lost; then the connection is unusable. After a cancellation the response can be recalled."""
        if self._transport is None or self._transport.is_closing():
            raise Lost("the connection was closed", may_have_arrived=False, is_stale=True)
        self._reader.begin()
        self._is_asked = True
        self._transport.write(request)
        if interrupt is None:
            return await self._await(seconds)
        with interrupt.watched(self.hurry_from_anywhere):
            return await self._await(seconds)

    async def recall(self, seconds: float) -> Answer:
        """The response to a request whose caller was cancelled while it waited."""
        if not self._reader.is_complete:
            self.hurry()
            return await self._await(seconds)
        self._is_asked = self._is_new = False
        return self._reader.answer()

    async def _await(self, seconds: float) -> Answer:
        self._answered = self._loop.create_future()
        if self._transport is None:
            raise Lost("the connection was closed", may_have_arrived=True)
        try:
            async with asyncio.timeout(seconds):
                answer = await self._answered
        except TimeoutError:
            raise Lost("it took too long", may_have_arrived=True) from None
        finally:
            self._answered = None
        self._is_asked = False
        return answer

    @property
    def may_be_kept(self) -> bool:
        return self._reader.is_complete and self._reader.keeps_alive and self._transport is not None

    def is_quiet(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def hurry(self) -> None:
        """Makes the server answer now what it was asked to wait for (see connection.py)."""
        if self._transport is not None:
            self._transport.write(HURRY)

    def hurry_from_anywhere(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.hurry)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def close_from_anywhere(self) -> None:
        """From a thread or loop other than the one that owns it."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.close)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        tune(cast(socket.socket, transport.get_extra_info("socket")))

    def data_received(self, data: bytes) -> None:
        if not self._is_asked:
            self.close()  # the server closes the connection
            return
        try:
            self._reader.feed(data)
        except Garbled as error:
            self._fail(str(error))
            self.close()
            return
        if self._reader.is_complete and self._answered is not None and not self._answered.done():
            self._is_new = False
            self._answered.set_result(self._reader.answer())

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._fail(str(error or "the connection was closed"))

    def _fail(self, sentence: str) -> None:
        if self._answered is not None and not self._answered.done():
            is_stale = not self._is_new and not self._reader.has_begun
            self._answered.set_exception(Lost(sentence, may_have_arrived=True, is_stale=is_stale))
