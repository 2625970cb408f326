"""The server: serve."""

from __future__ import annotations

import inspect
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

import rowq
from rowq.cli.command import Session
from rowq.cli.output import Failure, ReaderGone
from rowq.cli.parameter import duration

if TYPE_CHECKING:
    from rowq.server.run import Address

UVICORN = "0.54."
"""The releases whose internals the server relies on, as pinned in pyproject.toml."""


class _Option(NamedTuple):
    name: str
    kind: Any
    help: str
    metavar: str | None = None
    hidden: bool = False

    def to_parameter(self, panel: str) -> inspect.Parameter:
        """As Typer takes it: what is not given is None, since variables and the file come after it."""
        flag = "--" + self.name.replace("_", "-")
        takes: Any = {"metavar": "DURATION", "parser": duration} if self.kind is float else {"metavar": self.metavar}
        names = f"{flag}/--no-{flag[2:]}" if self.kind is bool else flag
        option = typer.Option(names, help=self.help, rich_help_panel=panel, show_default=False, hidden=self.hidden, **takes)
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[self.kind | None, option])


_OPTIONS = {
    "Listening": (
        _Option("config", Path, "Default: ROWQ_CONFIG, else rowq.toml if it is there.", "FILE"),
        _Option("redis", str, "redis://…: how servers on one database wake each other.", "URL"),
        _Option("host", str, "The address to listen on, 127.0.0.1 by default. Others require a key."),
        _Option("port", int, "The port, 8080 by default; 0 takes a free one."),
        _Option("admin", bool, "The admin pages; on by default."),
        _Option("admin_host", str, "The address of these pages, 127.0.0.1 by default. Others require a key."),
        _Option("admin_port", int, "Their port: 8081, or the one after --port; 0 takes a free one."),
        _Option("compat", str, "Which compatible APIs to serve: forq,keyval,queueti, or none."),
        _Option("doors", str, "The old name of --compat.", hidden=True),
        _Option("tls_cert", str, "A certificate with its chain (PEM); enables https.", "FILE"),
        _Option("tls_key", str, "Its key, if it is in a separate file.", "FILE"),
        _Option("http2", bool, "Serve HTTP/2 too; needs the extra http2."),
        _Option("workers", int, "How many processes serve, 1 by default. SQLite allows one."),
        _Option("stop_timeout", float, "How long running requests may take at a stop; 30s by default."),
    ),
    "Limits": (
        _Option("max_body_bytes", int, "The largest request, 16 MiB by default."),
        _Option("max_header_bytes", int, "The largest headers, 32 KiB by default."),
        _Option("header_timeout", float, "How long headers may take to arrive; 10s by default."),
        _Option("body_timeout", float, "How long a body may take to arrive; 30s by default."),
        _Option("idle_timeout", float, "How long a connection may be idle; 75s by default."),
        _Option("max_connections", int, "How many connections in all, 10,000 by default."),
        _Option("backlog", int, "How many may wait to be accepted, 2,048 by default."),
    ),
    "Logs and traces": (
        _Option("log_format", Literal["text", "json"], "How logs on stderr look: text or json."),
        _Option("log_level", Literal["debug", "info", "warning", "error"], "debug, info, warning or error; info by default.", "LEVEL"),
        _Option("access_log", bool, "Log every request."),
        _Option("metrics", bool, "Metrics for Prometheus at /metrics; on by default."),
        _Option("otel", bool, "Trace with OpenTelemetry; needs the extra otel."),
    ),
}
"""By panel of the help. Each but --config is an option of the server under the same name: see Config in server/config.py."""


def serve(session: Session, config: Path | None = None, **options: Any) -> None:
    """Serve the queues over HTTP until SIGTERM or Ctrl-C.

    Every option can also be a variable (ROWQ_MAX_BODY_BYTES=1000000) or a line in rowq.toml; options override variables override the file.
    Create keys with rowq keys create, or set ROWQ_API_KEY. Without any key it listens on this machine only.
    """
    flags = {name: given for name, given in options.items() if given is not None}
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


serve.__dict__["__signature__"] = inspect.Signature(
    [
        inspect.Parameter("session", inspect.Parameter.POSITIONAL_ONLY),
        *(option.to_parameter(panel) for panel, options in _OPTIONS.items() for option in options),
    ]
)


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
