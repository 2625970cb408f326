"""Logs: a line each, in two formats, and never a secret in them."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from rowq.model.access import ApiKey, digest_of
from rowq.server.logs import CLIENT_GONE, AccessLog, JsonFormatter, NamingAuthenticator, TextFormatter, redact

SECRET = "rowq_" + "aB3_-" * 8 + "xyz"


def record(message: str, *arguments: object, **more: Any) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "rowq.server", "levelno": 20, "levelname": "INFO", "msg": message, "args": arguments, **more})
    made.created, made.msecs = 1_767_258_000.25, 250.0
    return made


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        (f"made {SECRET}", "made rowq_***"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("authorization: Basic d29yazpwYXNz", "authorization: Basic ***"),
        ("X-API-Key: hunter2", "X-API-Key: ***"),
        ("(b'x-api-key', b'hunter2'), (b'accept', b'*/*')", "(b'x-api-key', b'***'), (b'accept', b'*/*')"),
        ("{'authorization': 'Bearer hunter2'}", "{'authorization': 'Bearer ***'}"),
        ("(b'cookie', b'a=b; ForqSession=hunt-er_2; c=d')", "(b'cookie', b'a=b; ForqSession=***; c=d')"),
        ("GET /v1/keys/watch?prefix=a&token=17.abc.worker HTTP/1.1", "GET /v1/keys/watch?prefix=a&token=*** HTTP/1.1"),
        ("postgresql://ada:p@ss@db.example.com/jobs", "postgresql://ada:***@db.example.com/jobs"),
        ("redis://:hunter2@cache", "redis://:***@cache"),
        ("postgresql://db/jobs?user=ada&password=hunter2", "postgresql://db/jobs?user=ada&password=***"),
        ("http://127.0.0.1:8080/docs", "http://127.0.0.1:8080/docs"),
        ("sqlite:///rowq.db", "sqlite:///rowq.db"),
        ("token buckets and api keys are fine", "token buckets and api keys are fine"),
    ],
)
def test_secrets_are_hidden_and_the_rest_is_left_alone(text: str, safe: str) -> None:
    assert redact(text) == safe


def test_a_line_of_text_has_a_moment_a_level_and_its_fields() -> None:
    line = TextFormatter().format(record("sent %d to %s", 3, "orders", fields={"queue": "orders", "count": 3}))
    assert line == "2026-01-01T09:00:00.250Z INFO rowq.server: sent 3 to orders queue=orders count=3"


def test_a_line_of_json_is_one_object() -> None:
    line = JsonFormatter().format(record("sent %d", 3, fields={"queue": "orders", "count": 3}))
    assert msgspec.json.decode(line) == {
        "at": "2026-01-01T09:00:00.250Z",
        "level": "info",
        "logger": "rowq.server",
        "message": "sent 3",
        "queue": "orders",
        "count": 3,
    }


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_no_text_forges_a_line(formatter: logging.Formatter) -> None:
    line = formatter.format(record("request", fields={"path": "/a\n2026-01-01 INFO forged\x1b[31m\u2028"}))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_a_secret_in_a_traceback_is_hidden_too(formatter: logging.Formatter) -> None:
    try:
        raise ValueError(f"cannot use {SECRET}")
    except ValueError:
        line = formatter.format(record("failed: %s", SECRET, exc_info=sys.exc_info()))
    assert "ValueError" in line
    assert SECRET not in line


def test_nobody_can_forge_a_line_by_an_error() -> None:
    try:
        raise ValueError("bad\n2026-01-01T09:00:00.000Z INFO rowq.server: forged\x1b[31m\u20282026-01-01 INFO forged")
    except ValueError:
        first, *rest = TextFormatter().format(record("failed", exc_info=sys.exc_info())).splitlines()
    assert first.endswith("failed") and len(rest) > 3
    assert all(line.startswith("  ") and "\x1b" not in line for line in rest)


def test_text_that_is_no_utf_8_is_logged_all_the_same() -> None:
    assert "\\udc80" in msgspec.json.decode(JsonFormatter().format(record("x", fields={"path": "/\udc80"})))["path"]


def test_configuring_sends_every_line_to_stderr_and_nothing_to_stdout() -> None:
    code = (
        "import logging; from rowq.server.logs import configure; configure('json', 'info');"
        f"logging.getLogger('rowq.x').info('key %s', '{SECRET}'); logging.getLogger('rowq.x').debug('quiet');"
        "logging.getLogger('uvicorn.error').info('quiet'); logging.getLogger('uvicorn.error').error('loud')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    assert [msgspec.json.decode(line)["message"] for line in done.stderr.splitlines()] == ["key rowq_***", "loud"]


class TestAccessLog:
    def asked(self, application: Any, caplog: pytest.LogCaptureFixture, **more: Any) -> dict[str, Any]:
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/v1/queues",
            "query_string": b"token=abc",
            "headers": [(b"x-api-key", b"s3cret")],
            "client": ("10.0.0.1", 4711),
            **more,
        }
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        with caplog.at_level(logging.INFO, "rowq.access"):
            asyncio.run(AccessLog(application)(scope, receive, send))
        [line] = caplog.records
        return dict(line.fields)  # type: ignore[attr-defined]

    def test_a_request_is_one_line_that_says_who_asked_for_what(self, caplog: pytest.LogCaptureFixture) -> None:
        authenticator = NamingAuthenticator([(ApiKey(name="worker", scopes=("admin",)), digest_of("s3cret"))])

        async def application(scope: Any, receive: Any, send: Any) -> None:
            authenticator.admit(scope)
            await send({"type": "http.response.start", "status": 201, "headers": []})
            await send({"type": "http.response.body", "body": b"12345", "more_body": True})
            await send({"type": "http.response.body", "body": b"678"})

        fields = self.asked(application, caplog)
        duration = fields.pop("duration_ms")
        assert fields == {"method": "GET", "path": "/v1/queues", "status": 201, "bytes": 8, "key": "worker", "peer": "10.0.0.1"}
        assert 0 <= duration < 10_000
        assert "s3cret" not in repr(fields) and "abc" not in repr(fields)

    def test_a_client_that_went_away_is_told_as_such(self, caplog: pytest.LogCaptureFixture) -> None:
        async def application(scope: Any, receive: Any, send: Any) -> None:
            await receive()

        fields = self.asked(application, caplog, client=None)
        assert (fields["status"], fields["bytes"], fields["key"], fields["peer"]) == (CLIENT_GONE, 0, None, None)

    def test_what_is_no_request_passes_without_a_line(self, caplog: pytest.LogCaptureFixture) -> None:
        seen: list[str] = []

        async def application(scope: Any, receive: Any, send: Any) -> None:
            seen.append(scope["type"])

        async def nothing(*_: Any) -> Any: ...

        with caplog.at_level(logging.INFO, "rowq.access"):
            asyncio.run(AccessLog(application)({"type": "lifespan"}, nothing, nothing))
        assert seen == ["lifespan"] and not caplog.records
