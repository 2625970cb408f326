"""A server in this process, on an engine of its own: the whole application behind a real socket, without the program around it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeVar

from uvicorn.config import Config
from uvicorn.server import ServerState

from rowq.connect import open_engine
from rowq.server.application import Application
from rowq.server.auth.authentication import Authenticator
from rowq.server.compat.api import CompatApi
from rowq.server.http.connection import make_protocol
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
        authenticator: Authenticator | None = None,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
        compat: Sequence[CompatApi] = (),
        **options: Any,
    ) -> None:
        self._loop = loop
        self._tls = tls
        self.engine = open_engine(url, **options)
        self.service = Service(self.engine, authenticator or Authenticator(), limits or Limits(), compat=compat)
        self._config = _config(Application(self.service))
        self._state = ServerState()
        self._listening: asyncio.Server = loop.run(self._listen(self._config, 0))
        self._beside: list[asyncio.Server] = []
        self._lives: list[asyncio.Task[None]] = []
        self._is_over = asyncio.Event()
        self.port: int = _port(self._listening)

    @property
    def url(self) -> str:
        return self._url(self.port)

    @property
    def connections(self) -> int:
        return len(self._state.connections)

    def call(self, function: Callable[[], T]) -> T:
        """Where the server runs: in its event loop."""

        async def called() -> T:
            return function()

        answer: T = self._loop.run(called())
        return answer

    def serve_beside(self, app: Any, life: AbstractAsyncContextManager[object] | None = None, port: int = 0) -> str:
        """Serves one more application until it is stopped, on a port of its own, any unless one is given; says where.

        `life`: what goes on beside its requests.
        """
        if life is not None:
            self._loop.run(self._begin(life))
        listening: asyncio.Server = self._loop.run(self._listen(_config(app), port))
        self._beside.append(listening)
        return self._url(_port(listening))

    def hang_up(self) -> None:
        """Closes every connection, as a server does with those that have been idle for too long."""
        self._loop.run(self._hang_up())

    def stop_listening(self) -> None:
        self._loop.run(_stop_listening(self._listening))

    def listen_again(self) -> None:
        self._listening = self._loop.run(self._listen(self._config, self.port))

    def stop(self) -> None:
        self._loop.run(self._end())
        self.engine.close()

    def _url(self, port: int) -> str:
        return f"http://127.0.0.1:{port}" if self._tls is None else f"https://localhost:{port}"

    async def _listen(self, config: Config, port: int) -> asyncio.Server:
        protocol = partial(_PROTOCOL, config=config, server_state=self._state, app_state={})
        return await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", port, ssl=self._tls)

    async def _begin(self, life: AbstractAsyncContextManager[object]) -> None:
        """It is left in the task that entered it, as groups of tasks want it."""
        has_begun = asyncio.Event()

        async def live() -> None:
            async with life:
                has_begun.set()
                await self._is_over.wait()

        task, begun = asyncio.create_task(live()), asyncio.create_task(has_begun.wait())
        await asyncio.wait((task, begun), return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if task.done():
            await task
        self._lives.append(task)

    async def _hang_up(self) -> None:
        for connection in list(self._state.connections):
            transport: asyncio.Transport = connection.transport
            transport.close()

    async def _end(self) -> None:
        await _stop_listening(self._listening, *self._beside)
        self.service.stop()
        self._is_over.set()
        await asyncio.gather(*self._lives)
        await self._hang_up()
        while self._state.tasks:
            await asyncio.wait(list(self._state.tasks))
        for _ in range(_TURNS):
            await asyncio.sleep(0)


def _config(app: Any) -> Config:
    config = Config(app, log_config=None, access_log=False, ws="none", lifespan="off", proxy_headers=False)
    config.load()
    return config


def _port(listening: asyncio.Server) -> int:
    port: int = listening.sockets[0].getsockname()[1]
    return port


async def _stop_listening(*all_listening: asyncio.Server) -> None:
    """First no more, then those that were just accepted: asyncio loses a connection that it accepts while it closes."""
    for listening in all_listening:
        for sock in listening.sockets:
            asyncio.get_running_loop().remove_reader(sock.fileno())
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    for listening in all_listening:
        listening.close()
