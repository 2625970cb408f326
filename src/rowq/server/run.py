"""`rowq serve`: puts engine, gate and application together, listens, and stops without dropping anybody."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import uvicorn
from msgspec import Struct

from rowq.connect import open_engine
from rowq.engine import Engine
from rowq.meter import Meter
from rowq.server import logs
from rowq.server.app import App
from rowq.server.config import Config, check_exposed
from rowq.server.gate import Gate
from rowq.server.listening import allow_connections, is_exposed, open_sockets, tls_context
from rowq.server.metrics import Metrics
from rowq.server.protocol import make_protocol
from rowq.server.service import Limits, Service
from rowq.server.tracing import open_tracing

_log = logging.getLogger("rowq.server")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Address(Struct, frozen=True):
    """What a user has to know once the server listens."""

    url: str
    database: str
    needs_key: bool


def serve(config: Config, announce: Callable[[Address], None]) -> None:
    """Runs until SIGTERM or SIGINT. Then nobody new is let in, waiting receives are answered with nothing, and all others as usual."""
    logs.configure(config.log_format, config.log_level)
    with ExitStack() as closing:
        engine = open_engine(config.url, actor="server", defaults=config.defaults)
        closing.callback(engine.close)
        gate = (logs.NamingGate if config.access_log else Gate)(config.keys, engine.insights.known_keys)
        gate.learn(engine.insights.known_keys())
        check_exposed(config.host, not config.is_local, has_keys=not gate.is_open)
        sockets = open_sockets(config.host, config.port, config.backlog)
        for listening in sockets:
            closing.callback(listening.close)
        if is_exposed(sockets):
            check_exposed(config.host, True, has_keys=not gate.is_open)
            gate.shut()
        service = _service(config, engine, gate)
        server = _Server(_uvicorn(config, App(service)), service)
        _collect_less()
        address = Address(_url(config, sockets), logs.redact(config.url), not gate.is_open)
        server.announce = lambda: announce(address)
        server.run(sockets)
    _log.info("rowq has stopped")


class _Server(uvicorn.Server):
    """uvicorn's, which watches the keys as long as it runs, and knows how our waiting requests are ended."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.announce: Callable[[], None] = lambda: None
        self._service = service
        self._watch: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._watch = asyncio.create_task(self._service.gate.watch())
        self.announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        _log.info("rowq is stopping; a second signal ends it at once")
        if self._watch is not None:
            self._watch.cancel()
        self._service.stop()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would raise the signal once more at the end, and so end the process before the database is closed."""
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
            os._exit(128 + sig)  # what is committed stays, the rest never was: the same as after a crash
        self.should_exit = True


def _service(config: Config, engine: Engine, gate: Gate) -> Service:
    meter = Meter()
    engine.attach(meter)
    return Service(
        engine, gate, Limits(config.max_body_bytes, config.body_timeout), metrics=Metrics(engine, meter), tracing=open_tracing(config.otel)
    )


def _uvicorn(config: Config, app: App) -> uvicorn.Config:
    options: dict[str, Any] = {}
    if config.tls_cert is not None:
        context = tls_context(config.tls_cert, config.tls_key, http2=config.http2)
        options["ssl_context_factory"] = lambda *_: context
    return uvicorn.Config(
        logs.AccessLog(app) if config.access_log else app,
        loop="auto" if sys.platform == "win32" else "uvloop",
        http=make_protocol(
            http2=config.http2,
            max_header_bytes=config.max_header_bytes,
            header_timeout=config.header_timeout,
            max_connections=_connections(config.max_connections),
        ),
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=config.backlog,
        timeout_keep_alive=config.idle_timeout,  # type: ignore[arg-type]  # it goes to call_later, which takes fractions
        timeout_graceful_shutdown=config.stop_timeout,  # type: ignore[arg-type]  # and this to wait_for
        **options,
    )


def _collect_less() -> None:
    """A request makes some twenty objects that live until it is answered. Python would search them for cycles every thirty requests,
    and find that they are still in use."""
    gc.freeze()
    gc.set_threshold(5_000, 20, 100)


def _connections(wanted: int) -> int:
    allowed = allow_connections(wanted)
    if allowed < wanted:
        _log.warning("this system allows files for %d connections, not %d: raise its limit (ulimit -n, LimitNOFILE=)", allowed, wanted)
    return allowed


def _url(config: Config, sockets: list[socket.socket]) -> str:
    """The way in from this machine: nobody can ask for 0.0.0.0 itself."""
    port = sockets[0].getsockname()[1]
    host = {"0.0.0.0": "localhost", "::": "localhost"}.get(config.host, config.host)  # noqa: S104  # asked for, not listened on
    scheme = "http" if config.tls_cert is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
