"""One connection to a server, for event loops."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from rowq.client.address import Address
from rowq.client.connection import tune, unreached
from rowq.client.http import Answer, Garbled, Reader
from rowq.client.retrying import Lost


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
        self.idle_since = 0.0
        self.is_waiting = False

    async def ask(self, request: bytes, seconds: float) -> Answer:
        """Raises Lost; then the connection is of no more use, nor is it after a cancellation."""
        if self._transport is None or self._transport.is_closing():
            raise Lost("the connection was closed", may_have_arrived=False, is_stale=True)
        self._reader.begin()
        self._answered = self._loop.create_future()
        self._transport.write(request)
        try:
            async with asyncio.timeout(seconds):
                return await self._answered
        except TimeoutError:
            raise Lost("it took too long", may_have_arrived=True) from None
        finally:
            self._answered = None

    @property
    def may_be_kept(self) -> bool:
        return self._reader.is_complete and self._reader.keeps_alive and self._transport is not None

    def is_quiet(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def close_from_anywhere(self) -> None:
        """From another thread or loop than the one that it belongs to."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.close)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        tune(cast(socket.socket, transport.get_extra_info("socket")))

    def data_received(self, data: bytes) -> None:
        if self._answered is None:
            self.close()  # nobody asked: it says goodbye
            return
        try:
            self._reader.feed(data)
        except Garbled as error:
            self._fail(str(error))
            self.close()
            return
        if self._reader.is_complete and not self._answered.done():
            self._is_new = False
            self._answered.set_result(self._reader.answer())

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._fail(str(error or "the connection was closed"))

    def _fail(self, sentence: str) -> None:
        if self._answered is not None and not self._answered.done():
            is_stale = not self._is_new and not self._reader.has_begun
            self._answered.set_exception(Lost(sentence, may_have_arrived=True, is_stale=is_stale))
