"""uvicorn's server, adapted: alone in its process, or as one of several workers."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from functools import partial
from types import FrameType
from typing import Any, ClassVar, NamedTuple

import uvicorn

from rowq.server.processes import Worker
from rowq.server.service import Service
from rowq.server.shared_event_streams import SharedEventStreams
from rowq.server.worker_state import WorkerState

_log = logging.getLogger("rowq.server")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Annex(NamedTuple):
    """A second application on its own sockets, in the same process: it starts and stops together with the server."""

    config: uvicorn.Config
    sockets: list[socket.socket]
    live: Callable[[], AbstractAsyncContextManager[None]]
    """Its background tasks."""


class Server(uvicorn.Server):
    """While it runs, it watches the API keys and runs the background tasks of the compatible APIs; on shutdown it ends waiting requests."""

    stop_level: ClassVar[int] = logging.INFO

    def __init__(self, config: uvicorn.Config, service: Service, on_ready: Callable[[], None], annex: Annex | None = None) -> None:
        super().__init__(config)
        self._service = service
        self._annex = annex
        self._lives = AsyncExitStack()
        self._on_ready = on_ready
        self._background: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])  # without sockets: uvicorn would give a client a minute for the TLS handshake
        await self._listen(self.config, sockets or [])
        lives = [self._service.authenticator.watch(), *(api.live(self._service) for api in self._service.compat)]
        self._background = [asyncio.create_task(life) for life in lives]
        if self._annex is not None:
            await self._open(self._annex)
        self._on_ready()

    async def _open(self, annex: Annex) -> None:
        """The server tracks its connections like all others, and ends them together."""
        annex.config.load()
        await self._lives.enter_async_context(annex.live())
        await self._listen(annex.config, annex.sockets)

    async def _listen(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        """A client has as long for the TLS handshake as for its headers."""
        protocol: Any = config.http_protocol_class
        new = partial(protocol, config=config, server_state=self.server_state, app_state=self.lifespan.state)
        patience = {} if config.ssl is None else {"ssl_handshake_timeout": protocol.header_timeout}
        for listening in sockets:
            self.servers.append(
                await asyncio.get_running_loop().create_server(new, sock=listening, ssl=config.ssl, backlog=config.backlog, **patience)
            )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        _log.log(self.stop_level, "rowq is stopping; a second signal ends it at once")
        for task in self._background:
            task.cancel()
        self._service.stop()
        await super().shutdown([*(sockets or ()), *(self._annex.sockets if self._annex else ())])
        await self._lives.aclose()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would raise the signal again at the end, which would kill the process before the database is closed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  # as signal.signal calls it
        if self.should_exit:
            os._exit(128 + sig)  # as after a crash: what is committed stays, the rest is rolled back
        self.should_exit = True


class WorkerServer(Server):
    """One of several workers: it stops when its parent says so or has died, and shares its state with the others."""

    stop_level = logging.DEBUG  # the parent logs it once for all

    def __init__(self, config: uvicorn.Config, service: Service, worker: Worker, worker_state: WorkerState, annex: Annex | None) -> None:
        super().__init__(config, service, worker.tell_ready, annex)
        self._worker = worker
        self._worker_state = worker_state
        self._streams = service.event_streams = SharedEventStreams(worker_state, worker.number)
        if service.metrics is not None:
            service.metrics.gauges["rowq_waiting_consumers"] = self._waiting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._worker.lifeline, self._be_orphaned)
        loop.add_reader(self._streams.inbox, self._streams.hear)
        await super().startup(sockets)

    async def on_tick(self, counter: int) -> bool:
        self._worker_state.note_connections(self._worker.number, len(self.server_state.connections))
        self._worker_state.note_waiting(self._worker.number, self._service.engine.waiting)
        if not self._service.authenticator.is_open:
            self._worker_state.shut()
        elif self._worker_state.is_shut:
            self._service.authenticator.shut()
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A signal may come twice: from a terminal or systemd to all processes, and from the parent. At the end signals are ignored."""
        for number in _SIGNALS:
            signal.signal(number, self.handle_exit)
        try:
            yield
        finally:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  # as signal.signal calls it
        self.should_exit = True

    def _be_orphaned(self) -> None:
        asyncio.get_running_loop().remove_reader(self._worker.lifeline)
        _log.error("worker %d stops because its parent has died", self._worker.number + 1)
        self.should_exit = True

    def _waiting(self) -> float:
        return self._service.engine.waiting + self._worker_state.waiting_elsewhere(self._worker.number)
