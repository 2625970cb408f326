"""`rowq serve`: puts engine, authentication and application together, listens, and stops without dropping a request."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import uvicorn
from msgspec import Struct

from rowq.connect import open_engine
from rowq.engine.engine import Engine
from rowq.model.access import KnownKey
from rowq.server import logs
from rowq.server.admin.site import Site
from rowq.server.application import Application
from rowq.server.auth.authentication import Authenticator
from rowq.server.compat.registry import chosen, open_apis
from rowq.server.config import Config, check_exposed
from rowq.server.http.connection import make_protocol
from rowq.server.http.listening import allow_connections, is_exposed, open_sockets, tls_context
from rowq.server.metrics import Metrics
from rowq.server.processes import Worker, Workers
from rowq.server.server import Annex, Server, WorkerServer
from rowq.server.service import Limits, Service
from rowq.server.shared_limit import share_limit
from rowq.server.shared_meter import SharedMeter
from rowq.server.tracing import open_tracing
from rowq.server.worker_state import WorkerState
from rowq.store.meter import Meter
from rowq.store.notify.redis_connection import check_redis_url

_log = logging.getLogger("rowq.server")


class Address(Struct, frozen=True):
    """What is announced once the server listens."""

    url: str
    database: str
    needs_key: bool
    workers: int = 1
    admin: str | None = None
    """The URL of the admin pages, if they are served."""


def serve(config: Config, announce: Callable[[Address], None]) -> None:
    """Runs until SIGTERM or SIGINT. Then it accepts no new connections, answers waiting receives with nothing, and finishes the rest."""
    logs.configure(config.log_format, config.log_level)
    for remark in config.remarks:
        _log.warning("%s", remark)
    with ExitStack() as stack:
        engine = _open(config) if config.workers == 1 else _look_into(config)
        stack.callback(engine.close)
        entrance = _Entrance(config, engine, stack)
        if config.workers == 1:
            _serve_alone(config, entrance, lambda: announce(entrance.address))
        else:
            engine.close()
            _serve_together(config, entrance, lambda: announce(entrance.address))
    _log.info("rowq has stopped")


def _open(config: Config) -> Engine:
    return open_engine(config.url, actor="server", defaults=config.defaults, redis=config.redis)


def _look_into(config: Config) -> Engine:
    """The parent's engine, without any thread: a fork would not copy threads."""
    if config.redis is not None:
        check_redis_url(config.redis)
    return open_engine(config.url, actor="server", defaults=config.defaults, maintenance=False)


class _Entrance:
    """Authentication, sockets, TLS and protocol: created once, and shared by all workers."""

    def __init__(self, config: Config, engine: Engine, stack: ExitStack) -> None:
        self.engine = engine
        self.authenticator = (logs.NamingAuthenticator if config.access_log else Authenticator)(config.keys, self._known_keys)
        self.learn()
        database = logs.redact(config.url)
        check_exposed(config.exposed, database, has_keys=not self.authenticator.is_open)
        self.sockets: list[socket.socket] = []
        self.admin_sockets: list[socket.socket] = []
        stack.callback(self.close)
        self.sockets = open_sockets(config.host, config.port, config.backlog)
        if config.admin:
            self.admin_sockets = open_sockets(
                config.admin_host, config.page_port, config.backlog, option="--admin-port (or ROWQ_ADMIN_PORT), or --no-admin"
            )
        for host, sockets in ((config.host, self.sockets), (config.admin_host, self.admin_sockets)):
            if is_exposed(sockets):
                check_exposed(host, database, has_keys=not self.authenticator.is_open)
                self.authenticator.shut()
        self.tls = None if config.tls_cert is None else tls_context(config.tls_cert, config.tls_key, http2=config.http2)
        self.protocol = _protocol(config)
        self.address = Address(
            _url(config, config.host, self.sockets),
            database,
            not self.authenticator.is_open,
            config.workers,
            _url(config, config.admin_host, self.admin_sockets) if self.admin_sockets else None,
        )

    def learn(self) -> None:
        self.authenticator.learn(self._known_keys())

    def close(self) -> None:
        for listening in (*self.sockets, *self.admin_sockets):
            listening.close()

    def _known_keys(self) -> list[KnownKey]:
        return self.engine.insights.known_keys()


def _serve_alone(config: Config, entrance: _Entrance, announce: Callable[[], None]) -> None:
    service = _service(config, entrance, Meter())
    server = Server(_uvicorn(config, entrance, Application(service)), service, announce, _annex(config, entrance, service))
    _collect_less()
    server.run(entrance.sockets)


def _serve_together(config: Config, entrance: _Entrance, announce: Callable[[], None]) -> None:
    with closing(WorkerState(config.workers)) as worker_state:
        gc.collect()
        gc.freeze()  # these objects are permanent: a collection that writes to them would copy their pages in every worker
        work = partial(_serve_as, config, entrance, worker_state)
        Workers(config.workers, work, on_ready=announce, on_stop=entrance.close, on_end=worker_state.leave).run()


def _serve_as(config: Config, entrance: _Entrance, worker_state: WorkerState, worker: Worker) -> None:
    """Runs in a worker process, with its own engine behind the shared entrance."""
    with ExitStack() as stack:
        meter = SharedMeter(worker_state, worker.number)
        stack.callback(meter.close)
        entrance.engine = _open(config)
        stack.callback(entrance.engine.close)
        entrance.learn()
        entrance.protocol = share_limit(entrance.protocol, worker_state, worker.number, config.max_connections)
        service = _service(config, entrance, meter)
        if service.tracing is not None:
            stack.callback(_flush_spans)
        annex = _annex(config, entrance, service) if worker.number == 0 else None  # one worker sees the counts of all
        server = WorkerServer(_uvicorn(config, entrance, Application(service)), service, worker, worker_state, annex)
        meter.start()
        _collect_less()
        server.run(entrance.sockets)


def _service(config: Config, entrance: _Entrance, meter: Meter) -> Service:
    entrance.engine.attach(meter)
    limits = Limits(config.max_body_bytes, config.body_timeout)
    return Service(
        entrance.engine,
        entrance.authenticator,
        limits,
        metrics=Metrics(entrance.engine, meter) if config.metrics else None,
        tracing=open_tracing(config.otel),
        compat=open_apis(chosen(config.compat), config.compat_options),
        closed=() if config.metrics else ("/metrics",),
    )


def _flush_spans() -> None:
    """OpenTelemetry flushes when the interpreter exits, but a worker ends with os._exit."""
    from opentelemetry import trace

    flush: Callable[[], object] | None = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        flush()


def _annex(config: Config, entrance: _Entrance, service: Service) -> Annex | None:
    if not entrance.admin_sockets:
        return None
    site = Site(service, database=entrance.address.database, workers=config.workers, api=entrance.address.url)
    return Annex(_uvicorn(config, entrance, site), entrance.admin_sockets, site.context.live)


def _uvicorn(config: Config, entrance: _Entrance, app: Any) -> uvicorn.Config:
    options: dict[str, Any] = {} if entrance.tls is None else {"ssl_context_factory": lambda *_: entrance.tls}
    return uvicorn.Config(
        logs.AccessLog(app) if config.access_log else app,
        loop="auto" if sys.platform == "win32" else "uvloop",
        http=entrance.protocol,
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=config.backlog,
        timeout_keep_alive=config.idle_timeout,  # type: ignore[arg-type]  # passed to call_later, which takes fractions
        timeout_graceful_shutdown=config.stop_timeout,  # type: ignore[arg-type]  # passed to wait_for
        **options,
    )


def _protocol(config: Config) -> type[asyncio.Protocol]:
    return make_protocol(
        http2=config.http2,
        max_header_bytes=config.max_header_bytes,
        header_timeout=config.header_timeout,
        max_connections=_connections(config.max_connections),
    )


def _collect_less() -> None:
    """A request creates about twenty objects that live until it is answered. With the default threshold, Python would search them for
    cycles every thirty requests, in vain."""
    gc.freeze()
    gc.set_threshold(5_000, 20, 100)


def _connections(wanted: int) -> int:
    allowed = allow_connections(wanted)
    if allowed < wanted:
        _log.warning("this system allows open files for %d connections, not %d: raise its limit (ulimit -n, LimitNOFILE=)", allowed, wanted)
    return allowed


def _url(config: Config, asked: str, sockets: list[socket.socket]) -> str:
    """The URL from this machine: 0.0.0.0 itself is not an address to connect to."""
    port = sockets[0].getsockname()[1]
    host = {"0.0.0.0": "localhost", "::": "localhost"}.get(asked, asked)  # noqa: S104  # compared, not listened on  # nosec
    scheme = "http" if config.tls_cert is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
