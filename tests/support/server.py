"""A server in this process, on an engine of its own: the whole application behind a real socket, without the program around it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from uvicorn.config import Config
from uvicorn.server import ServerState

from rowq.connect import open_engine
from rowq.server.app import App
from rowq.server.doors.door import Door
from rowq.server.gate import Gate
from rowq.server.protocol import make_protocol
from rowq.server.service import Limits, Service
from tests.support.blocking import LoopThread

T = TypeVar("T")

_PROTOCOL: Any = make_protocol(http2=False, max_header_bytes=32_768, header_timeout=10, max_connections=10_000)
_TURNS = 5
"""Of the loop: so many callbacks stand between a socket and its protocol, at most."""


class Server:
    """Serves a database until it is stopped. It opens in a millisecond: no program, no signals, no lifespan."""

    def __init__(
        self,
        loop: LoopThread,
        url: str,
        *,
        gate: Gate | None = None,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
        doors: Sequence[Door] = (),
        **options: Any,
    ) -> None:
        self._loop = loop
        self._tls = tls
        self.engine = open_engine(url, **options)
        self.service = Service(self.engine, gate or Gate(), limits or Limits(), doors=doors)
        self._config = Config(App(self.service), log_config=None, access_log=False, ws="none", lifespan="off")
        self._config.load()
        self._state = ServerState()
        self._listening: asyncio.Server = loop.run(self._listen(0))
        self.port: int = self._listening.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}" if self._tls is None else f"https://localhost:{self.port}"

    @property
    def connections(self) -> int:
        return len(self._state.connections)

    def call(self, function: Callable[[], T]) -> T:
        """Where the server runs: in its event loop."""

        async def called() -> T:
            return function()

        answer: T = self._loop.run(called())
        return answer

    def hang_up(self) -> None:
        """Closes every connection, as a server does with those that have been idle for too long."""
        self._loop.run(self._hang_up())

    def stop_listening(self) -> None:
        self._loop.run(self._stop_listening())

    def listen_again(self) -> None:
        self._listening = self._loop.run(self._listen(self.port))

    def stop(self) -> None:
        self._loop.run(self._end())
        self.engine.close()

    def _protocol(self) -> Any:
        return _PROTOCOL(config=self._config, server_state=self._state, app_state={})

    async def _listen(self, port: int) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(self._protocol, "127.0.0.1", port, ssl=self._tls)

    async def _stop_listening(self) -> None:
        """First no more, then those that were just accepted: asyncio loses a connection that it accepts while it closes."""
        for sock in self._listening.sockets:
            asyncio.get_running_loop().remove_reader(sock.fileno())
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        self._listening.close()

    async def _hang_up(self) -> None:
        for connection in list(self._state.connections):
            transport: asyncio.Transport = connection.transport
            transport.close()

    async def _end(self) -> None:
        await self._stop_listening()
        self.service.stop()
        await self._hang_up()
        while self._state.tasks:
            await asyncio.wait(list(self._state.tasks))
        for _ in range(_TURNS):
            await asyncio.sleep(0)
