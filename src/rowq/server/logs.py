"""Logs on stderr, as text or as one JSON object per line. Secrets are redacted in every record, also in those of libraries."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from rowq.server.auth.authentication import Authenticator, Identity
from rowq.server.http.asgi import Message, Receive, Scope, Send
from rowq.server.http.shortcut import EXTENSION

Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_access = logging.getLogger("rowq.access")

CLIENT_GONE = 499
"""The client left before the answer; proxies use this number too."""
KEY_IN_SCOPE = "rowq.key"
_HIDDEN = "***"
_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"rowq_[A-Za-z0-9_-]{43}", f"rowq_{_HIDDEN}"),
        (r"((?:authorization|x-api-key)['\"]?\s*[:=,]\s*(?:b?['\"])?(?:(?:bearer|basic|digest)\s+)?)[^\s'\",;)}\]]+", rf"\1{_HIDDEN}"),
        (r"(ForqSession=)[A-Za-z0-9_-]+", rf"\1{_HIDDEN}"),
        (r"([?&]\w*(?:token|password|secret)=)[^&\s'\"]+", rf"\1{_HIDDEN}"),
        (r"(\b\w+://[^:/?#\s@]*:)[^/\s]+@", rf"\1{_HIDDEN}@"),
    )
)
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def configure(format: Literal["text", "json"], level: str) -> None:
    """For a process that only runs the server: all loggers of the process use the same handler."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # The server logs its own start and stop, so uvicorn's messages about them are dropped.
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, root.level) if root.level > logging.DEBUG else logging.DEBUG)
    logging.raiseExceptions = False


def redact(text: str) -> str:
    """The text without secrets: API keys, Authorization, session cookies, ?token=, passwords in URLs."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


class TextFormatter(logging.Formatter):
    """`2026-01-01T09:00:00.000Z INFO rowq.server: what happened name=value`; a traceback follows on indented lines."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        lines = [f"{record.getMessage()}{fields}"]
        if record.exc_info:
            lines += [f"  {line}" for line in self.formatException(record.exc_info).splitlines()]
        told = "\n".join(_CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", line) for line in lines)
        return f"{_moment(record)} {record.levelname} {record.name}: {redact(told)}"


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document = {
            "at": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
            **{name: redact(value) if isinstance(value, str) else value for name, value in _fields(record).items()},
        }
        if record.exc_info:
            document["trace"] = redact(self.formatException(record.exc_info))
        line = msgspec.json.encode({name: _encodable(value) for name, value in document.items()}, enc_hook=str).decode()
        return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


class NamingAuthenticator(Authenticator):
    """Records the name of the key, for the access log."""

    def admit(self, scope: Any) -> Identity:
        identity = super().admit(scope)
        scope[KEY_IN_SCOPE] = identity.name
        return identity


class AccessLog:
    """ASGI middleware: one line per request, after its answer. The query is left out: it may hold a token."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        scope.pop(EXTENSION, None)  # it would bypass the log
        status, size = CLIENT_GONE, 0

        async def count(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                size += len(message.get("body", b""))
            await send(message)

        started = time.perf_counter()
        try:
            await self._application(scope, receive, count)
        finally:
            client = scope.get("client")
            fields = {
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "duration_ms": round((time.perf_counter() - started) * 1000, 3),
                "bytes": size,
                "key": scope.get(KEY_IN_SCOPE),
                "peer": client[0] if client else None,
            }
            _access.info("request", extra={"fields": fields})


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03d}Z"


def _encodable(value: Any) -> Any:
    """A path may hold bytes that are not UTF-8; they arrive as lone surrogates."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
