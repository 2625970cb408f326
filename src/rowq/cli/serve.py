"""The server: serve."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import rowq
from rowq.cli import value
from rowq.cli.command import Session
from rowq.cli.failure import Failure, ReaderGone

if TYPE_CHECKING:
    from rowq.server.run import Address

UVICORN = "0.54."
"""The releases whose internals the server relies on, as pinned in pyproject.toml."""
_LISTENING = "Listening"
_LIMITS = "Limits"
_LOGS = "Logs and traces"


def _option(name: str, help: str, panel: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=help, rich_help_panel=panel, metavar=metavar, show_default=False)


def _duration(name: str, help: str, panel: str) -> Any:
    return typer.Option(name, metavar="DURATION", parser=value.duration, help=help, rich_help_panel=panel, show_default=False)


Redis = Annotated[str | None, _option("--redis", "redis://…: how servers on one database wake each other.", _LISTENING, "URL")]
Config = Annotated[Path | None, _option("--config", "Default: ROWQ_CONFIG, else rowq.toml if it is there.", _LISTENING, "FILE")]
Host = Annotated[str | None, _option("--host", "The address to listen on, 127.0.0.1 by default. Others require a key.", _LISTENING)]
Port = Annotated[int | None, _option("--port", "The port, 8080 by default; 0 takes a free one.", _LISTENING)]
Admin = Annotated[bool | None, _option("--admin/--no-admin", "The admin pages; on by default.", _LISTENING)]
AdminHost = Annotated[
    str | None, _option("--admin-host", "The address of these pages, 127.0.0.1 by default. Others require a key.", _LISTENING)
]
AdminPort = Annotated[int | None, _option("--admin-port", "Their port: 8081, or the one after --port; 0 takes a free one.", _LISTENING)]
Compat = Annotated[str | None, _option("--compat", "Which compatible APIs to serve: forq,keyval,queueti, or none.", _LISTENING)]
Doors = Annotated[str | None, typer.Option("--doors", hidden=True)]
"""The old name of --compat."""
TlsCert = Annotated[str | None, _option("--tls-cert", "A certificate with its chain (PEM); enables https.", _LISTENING, "FILE")]
TlsKey = Annotated[str | None, _option("--tls-key", "Its key, if it is in a separate file.", _LISTENING, "FILE")]
Http2 = Annotated[bool | None, _option("--http2/--no-http2", "Serve HTTP/2 too; needs the extra http2.", _LISTENING)]
Workers = Annotated[int | None, _option("--workers", "How many processes serve, 1 by default. SQLite allows one.", _LISTENING)]
StopTimeout = Annotated[
    float | None, _duration("--stop-timeout", "How long running requests may take at a stop; 30s by default.", _LISTENING)
]

MaxBodyBytes = Annotated[int | None, _option("--max-body-bytes", "The largest request, 16 MiB by default.", _LIMITS)]
MaxHeaderBytes = Annotated[int | None, _option("--max-header-bytes", "The largest headers, 32 KiB by default.", _LIMITS)]
HeaderTimeout = Annotated[float | None, _duration("--header-timeout", "How long headers may take to arrive; 10s by default.", _LIMITS)]
BodyTimeout = Annotated[float | None, _duration("--body-timeout", "How long a body may take to arrive; 30s by default.", _LIMITS)]
IdleTimeout = Annotated[float | None, _duration("--idle-timeout", "How long a connection may be idle; 75s by default.", _LIMITS)]
MaxConnections = Annotated[int | None, _option("--max-connections", "How many connections in all, 10,000 by default.", _LIMITS)]
Backlog = Annotated[int | None, _option("--backlog", "How many may wait to be accepted, 2,048 by default.", _LIMITS)]

LogFormat = Annotated[Literal["text", "json"] | None, _option("--log-format", "How logs on stderr look: text or json.", _LOGS)]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    _option("--log-level", "debug, info, warning or error; info by default.", _LOGS, "LEVEL"),
]
Metrics = Annotated[bool | None, _option("--metrics/--no-metrics", "Metrics for Prometheus at /metrics; on by default.", _LOGS)]
AccessLog = Annotated[bool | None, _option("--access-log/--no-access-log", "Log every request.", _LOGS)]
Otel = Annotated[bool | None, _option("--otel/--no-otel", "Trace with OpenTelemetry; needs the extra otel.", _LOGS)]


def serve(
    session: Session,
    config: Config = None,
    redis: Redis = None,
    host: Host = None,
    port: Port = None,
    admin: Admin = None,
    admin_host: AdminHost = None,
    admin_port: AdminPort = None,
    compat: Compat = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    http2: Http2 = None,
    workers: Workers = None,
    stop_timeout: StopTimeout = None,
    max_body_bytes: MaxBodyBytes = None,
    max_header_bytes: MaxHeaderBytes = None,
    header_timeout: HeaderTimeout = None,
    body_timeout: BodyTimeout = None,
    idle_timeout: IdleTimeout = None,
    max_connections: MaxConnections = None,
    backlog: Backlog = None,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
    access_log: AccessLog = None,
    metrics: Metrics = None,
    otel: Otel = None,
    doors: Doors = None,
) -> None:
    """Serve the queues over HTTP until SIGTERM or Ctrl-C.

    Every option can also be a variable (ROWQ_MAX_BODY_BYTES=1000000) or a line in rowq.toml; options override variables override the file.
    Create keys with rowq keys create, or set ROWQ_API_KEY. Without any key it listens on this machine only.
    """
    flags = {name: given for name, given in locals().items() if name not in ("session", "config") and given is not None}
    try:
        import uvicorn

        from rowq.server.config import load
        from rowq.server.run import serve as run
    except ImportError as error:
        raise Failure(f"the server needs packages that are not installed: pip install 'rowq[server]' [{error}]") from None
    if not uvicorn.__version__.startswith(UVICORN):
        raise Failure(f"the server needs uvicorn {UVICORN}, and this is {uvicorn.__version__}: pip install 'rowq[server]'")

    if session.given_url not in (None, os.environ.get("ROWQ_URL")):  # a variable, unlike the command line, is not visible to other users
        flags["url"] = session.given_url
    run(load(flags, os.environ, file=config), lambda address: _announce(session, address))


def _announce(session: Session, address: Address) -> None:
    """If the announcement cannot be written, the server runs all the same."""
    with suppress(ReaderGone, Failure):
        _show(session, address)
        session.output.flush()


_STEPS = (
    ("send", "/v1/queues/demo/messages", '{"payload": {"hello": "world"}}'),
    ("receive", "/v1/queues/demo/deliveries", '{"wait_ms": 20000}'),
    ("ack", "/v1/ack", '{"receipts": ["RECEIPT"]}'),
)


def _show(session: Session, address: Address) -> None:
    url, output = address.url, session.output
    if output.json:
        output.document({"url": url, "admin": address.admin, "database": address.database, "needs_key": address.needs_key})
        return
    from rowq.server.config import making_a_key

    curl = 'curl -H "X-API-Key: $ROWQ_API_KEY"' if address.needs_key else "curl"
    workers = "" if address.workers == 1 else f", with {address.workers} workers"
    output.line(f"rowq {rowq.__version__} serves {address.database} at {url}{workers}")
    output.line("")
    for what, path, body in _STEPS:
        output.line(f"  {what:8} {curl} {url}{path} -d '{body}'")
    output.line(f"  more     {url}/docs")
    if address.admin is not None:
        output.line(f"  look     {address.admin}")
    output.line("")
    needed = (
        f"A key is needed: `{making_a_key(address.database)}` creates one."
        if address.needs_key
        else "No key is needed, because only this machine can reach it."
    )
    output.line(f"{needed} Ctrl-C stops the server.")
