"""The connection layer: limits on the number of clients and on the size and slowness of their headers, and the switch to HTTP/2.

uvicorn implements HTTP/1.1. The additions run once per connection or once per read, never once per header, to keep their cost negligible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from rowq.errors import InvalidArgument
from rowq.server.http.bounded import BoundedProtocol
from rowq.server.http.exchange import Beginner, Exchange
from rowq.server.http.parting import hang_up
from rowq.wire import Problem

__all__ = ["PREFACE", "EitherProtocol", "LimitedProtocol", "make_protocol"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of an HTTP/2 client. No HTTP/1 request begins like this."""

_MANY_LINGER = 100
_TRIES = 32
_UPGRADE_FIELDS = (b"upgrade", b"connection", b"http2-settings")


def make_protocol(*, http2: bool, max_header_bytes: int, header_timeout: float, max_connections: int) -> type[asyncio.Protocol]:
    """The class that uvicorn takes as `http=`."""
    limits: dict[str, Any] = {"max_header_bytes": max_header_bytes, "header_timeout": header_timeout, "max_connections": max_connections}
    if not http2:
        return type("Http1", (LimitedProtocol,), limits)
    try:
        from rowq.server.http.http2 import Http2Protocol
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "h2":
            raise
        raise InvalidArgument("HTTP/2 needs the package h2: pip install rowq[http2]") from error
    return type("Http1Or2", (EitherProtocol,), limits | {"speak_http2": Http2Protocol})


class LimitedProtocol(BoundedProtocol):
    """HTTP/1.1 with limits. An offer to upgrade (WebSocket, h2c) is ignored: the request is served as HTTP/1.1."""

    max_header_bytes: ClassVar[int]
    header_timeout: ClassVar[float]
    max_connections: ClassVar[int]

    # Slots, since uvicorn's own attributes already use up the instance's fast attribute lookup.
    __slots__ = ("_ahead", "_barren", "_beginner", "_deadline", "_idle_since", "_parting", "_read", "_split", "_tries")

    _hung_up = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.scope = {}  # type: ignore[typeddict-item]  # uvicorn has None until the first request begins
        self._ahead: list[RequestResponseCycle] = []  # requests that have others queued behind them
        self._barren = 0  # bytes of reads that completed no headers and brought no body: headers, trailers, chunk framing
        self._beginner: Beginner | None = getattr(self.app, "beginner", None)
        self._deadline: asyncio.TimerHandle | None = None
        self._idle_since = 0.0
        self._parting = False  # further input is ignored
        self._read = 0  # bytes in this read
        self._split = False  # the headers of this request arrive in more than one read
        self._tries = 0 if self._beginner is None else _TRIES  # how many heads more may be new before they are no longer looked up
        clients = len(self.connections)
        if clients > self.max_connections:
            self._refuse(503, "server_unavailable", f"All {self.max_connections} connections of the server are in use: try again later.")
            if clients > self.max_connections + _MANY_LINGER:
                transport.close()
        else:
            self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._stop_clock()
        # uvicorn notifies only the newest request; those before it would run for ever.
        for cycle in self._ahead:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        if self._parting:
            return
        before, is_next = self.scope, bool(self._tries) and self._stands_between_requests()
        if is_next and self._begin(data):
            return
        self._unset_keepalive_if_required()
        self._read = len(data)
        upgraded_at = 0
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            upgraded_at = upgrade.args[0]
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _PiledUp):
                self._refuse(429, "too_many_requests", "Too many requests are waiting on this connection: read their answers first.")
            elif isinstance(error.__context__, _TooLarge):
                self._refuse_headers()
            elif isinstance(error.__context__, _TwoHosts):
                self._refuse(400, "invalid_argument", "The request has more than one Host header: send one.")
            else:
                reason = "request line or headers" if isinstance(error, httptools.HttpParserCallbackError) else error
                self._refuse(400, "invalid_argument", f"The request is not valid HTTP/1.1: {reason}.")
        else:
            if "path" not in self.scope:
                self._split = True
                self._start_clock()
                if self.scope is before or not self._has_asked:
                    self._count_barren(self._read)
                else:
                    # The read may have begun with the end of a body: only bytes known to be headers count.
                    self._barren = 0
                    self._count_barren(self._header_bytes())
            elif self.scope is before:
                if self.cycle.response_complete:
                    # Bytes that belong to no request: uvicorn has just cancelled its own timer, and only this one closes the connection.
                    self._start_clock()
                elif self.cycle.body:
                    self._barren = 0
                else:
                    self._count_barren(self._read)
            elif is_next:
                self._learn(data)
            if data.endswith(b"\r\n"):
                self._look_for_hurry(data, is_new=self.scope is not before)
        if upgraded_at:
            # Outside the except block: a pending upgrade exception would hide why the parser stops later.
            self._serve_as_it_stands(data[upgraded_at:])

    def _stands_between_requests(self) -> bool:
        if not self._has_asked:
            return not self.scope
        return self.cycle.response_complete and not self.cycle.more_body and "path" in self.scope

    def _begin(self, data: bytes) -> bool:
        """Serves a whole request whose head is known without the parser, which stands between two requests."""
        if self._beginner is None or self.flow.write_paused:
            return False
        found = self._beginner.heads.find(data)
        if found is None:
            return False
        self._tries = _TRIES
        if self._deadline is not None:
            self._stop_clock()
        self._barren = 0
        self.scope = found[0].scope  # type: ignore[assignment]
        self.cycle = self._running = exchange = Exchange(self, *found)  # type: ignore[assignment]
        exchange.run()
        return True

    def _learn(self, data: bytes) -> None:
        """`data` begins with a request whose head has been read."""
        if self._beginner is not None and not self.pipeline and self.scope["method"] == "POST" and self.cycle.keep_alive:
            self._tries -= 1
            scope: Any = self.scope
            self._beginner.heads.learn(data, scope, self._beginner, self.max_header_bytes)

    def _look_for_hurry(self, data: bytes, *, is_new: bool) -> None:
        """An empty line after a request means that its client no longer wants to wait. `is_new`: the request itself is in this read."""
        if not self._has_asked or self.cycle.more_body or self.cycle.response_complete:
            return
        if is_new or self.cycle.body:
            end = bytes(self.cycle.body[-64:]) or b"\r\n\r\n"
            data = data[data.rfind(end) + len(end) :]
        if data and not data.strip(b"\r\n"):
            self._running.hurry()

    def shutdown(self) -> None:
        if self._hung_up:
            self.transport.close()
        else:
            super().shutdown()

    def on_response_complete(self) -> None:
        """As uvicorn has it, but with one timer for all answers: it looks when the last one was."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if not self.cycle.response_complete:
            return
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def on_headers_complete(self) -> None:
        if (self._split or self._read > self.max_header_bytes) and self._header_bytes() > self.max_header_bytes:
            raise _TooLarge
        if [name for name, _ in self.headers].count(b"host") > 1:
            raise _TwoHosts
        self._split = False
        self._barren = 0
        if self._deadline is not None:
            self._stop_clock()
        previous = self.cycle
        super().on_headers_complete()
        if self.pipeline:
            if len(self.pipeline) == 1:
                self._ahead.clear()
            self._ahead.append(previous)
            if self.is_piled_up:
                raise _PiledUp
        # uvicorn would add the trailers of a chunked body to headers that the application may have checked already.
        self.headers = []

    def _should_upgrade(self) -> bool:
        # The parser stops at an upgrade and skips the body. True keeps uvicorn from starting the request; see _serve_as_it_stands.
        return True

    def _header_bytes(self) -> int:
        request_line = len(self.parser.get_method()) + len(self.url) + len(b"  HTTP/1.1\r\n")
        return request_line + sum(len(name) + len(value) + len(b": \r\n") for name, value in self.headers) + len(b"\r\n")

    def _serve_as_it_stands(self, rest: bytes) -> None:
        """Parses the request again, without its offer to upgrade, and with its body."""
        method = self.scope["method"].encode()
        if method == b"CONNECT":
            self._refuse(400, "invalid_argument", "This server is not a proxy and does not support CONNECT.")
            return
        lines = [b"%b %b HTTP/%b" % (method, self.url, self.parser.get_http_version().encode())]
        for name, value in self.scope["headers"]:
            if name == b"connection":
                value = b", ".join(token for token in value.split(b",") if token.strip().lower() not in _UPGRADE_FIELDS)  # noqa: PLW2901
            if name not in _UPGRADE_FIELDS or (name == b"connection" and value):
                lines.append(b"%b: %b" % (name, value))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._barren = 0
        self.data_received(b"\r\n".join([*lines, b"", rest]))

    def _start_clock(self) -> None:
        self._deadline = self._deadline or self.loop.call_later(self.header_timeout, self._too_slow)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if "path" not in self.scope:
            self._refuse(408, "timeout", f"The headers of the request were not complete after {self.header_timeout:g} seconds.")
        else:
            self.transport.close()

    def _refuse_headers(self) -> None:
        self._refuse(431, "headers_too_large", f"Request line and headers may have {self.max_header_bytes} bytes in total: send fewer.")

    def _count_barren(self, size: int) -> None:
        self._barren += size
        if self._barren > self.max_header_bytes:
            self._refuse_headers()

    def _refuse(self, status: int, code: str, error: str) -> None:
        """Answers and closes, after the answers to earlier requests."""
        self._parting = True
        self._stop_clock()
        answer = self._answer(status, code, error)
        last = self.cycle if self._has_asked else None
        if last is not None and last.more_body and not last.response_complete:
            # The unreadable input is the body of this request.
            last.disconnected = True
            last.message_event.set()
            if last.response_started:
                self.transport.close()
                return
            if self.pipeline:
                self.pipeline.popleft()
                last = self._ahead[-1]
            else:
                last = None
        if last is None or last.response_complete:
            self._part(answer)
        else:

            def say_last_words() -> None:
                self.on_response_complete()
                self._part(answer)

            last.on_response = say_last_words

    def _part(self, words: bytes) -> None:
        if not self.transport.is_closing():
            self._hung_up = True
            self._unset_keepalive_if_required()
            self.flow.resume_reading()
            self.transport.write(words)
            hang_up(self.transport, self.loop)

    @property
    def _has_asked(self) -> bool:
        return self.cycle is not None

    def _answer(self, status: int, code: str, error: str) -> bytes:
        body = msgspec.json.encode(Problem(code=code, error=error))
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        return STATUS_LINE[status] + self.default_fields() + head + body


class EitherProtocol(LimitedProtocol):
    """HTTP/1.1, or HTTP/2 for a client that begins with its preface."""

    speak_http2: ClassVar[Callable[..., Any]]
    _first = b""

    def data_received(self, data: bytes) -> None:
        if not self.scope and not self._parting:
            data = self._first + data
            if data.startswith(PREFACE):
                self._hand_over(data)
                return
            if PREFACE.startswith(data):
                self._first = data
                return
            self._first = b""
        super().data_received(data)

    def _hand_over(self, data: bytes) -> None:
        self._stop_clock()
        self.connections.discard(self)
        limits = {"max_header_bytes": self.max_header_bytes, "header_timeout": self.header_timeout}
        successor = self.speak_http2(self.config, self.server_state, self.app_state, self.loop, hang_up=hang_up, **limits)
        successor.connection_made(self.transport)
        self.transport.set_protocol(successor)
        successor.data_received(data)


class _TooLarge(Exception):
    """Stops the parser."""


class _TwoHosts(Exception):
    """Stops the parser: a proxy in front of the server may use the other one."""


class _PiledUp(Exception):
    """Stops the parser before it takes further requests of the same read, which would be executed and never answered."""
