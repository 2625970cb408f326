"""One request over HTTP/2 and its answer: the ASGI side of a stream, with flow control both ways."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import chain
from typing import Any
from urllib.parse import unquote

import msgspec
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE
from uvicorn.protocols.utils import get_client_addr, get_path_with_query_string
from uvicorn.server import ServerState

from rowq.server.http.asgi import Message, Receive, Send
from rowq.wire import Problem

__all__ = ["Application", "Stream", "read_request"]

Application = Callable[[Any, Receive, Send], Awaitable[None]]

LINGER = 1.0
"""Seconds for which a client may continue to send the body of a request that is already answered."""

_ONLY_HTTP1 = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
_TARGET = re.compile(rb"/[!-\"$-~]*|\*")
_log = logging.getLogger("uvicorn.error")
_access = logging.getLogger("uvicorn.access")


def refusal(status: int, code: str, error: str) -> Application:
    """An application that answers with this error."""
    body = msgspec.json.encode(Problem(code=code, error=error))

    async def refuse(_scope: Any, _receive: Any, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return refuse


def read_request(fields: Iterable[tuple[bytes, bytes]], max_header_bytes: int) -> tuple[dict[str, Any], Application | None]:
    """The scope that the header fields describe, and an application that answers with an error if they are invalid."""
    pseudo: dict[bytes, bytes] = {}
    headers: list[tuple[bytes, bytes]] = []
    size = 0
    for name, value in fields:
        size += len(name) + len(value) + 32  # as HTTP/2 counts them
        if name.startswith(b":"):
            pseudo[name] = value
        elif name != b"host" or b":authority" not in pseudo:
            headers.append((name, value))
    if b":authority" in pseudo:
        headers.insert(0, (b"host", pseudo[b":authority"]))
    target = pseudo.get(b":path", b"")
    fault = None
    if size > max_header_bytes:
        fault = refusal(431, "headers_too_large", f"Request line and headers may have {max_header_bytes} bytes in total: send fewer.")
    elif not _TARGET.fullmatch(target):
        fault = refusal(400, "invalid_argument", "The path must begin with / and have only visible ASCII characters, without #.")
    raw_path, _, query = target.partition(b"?")
    path = raw_path.decode("latin-1")
    scope = {
        "type": "http",
        "http_version": "2",
        "method": pseudo[b":method"].decode("latin-1"),
        "path": unquote(path) if "%" in path else path,
        "raw_path": raw_path,
        "query_string": query,
        "headers": headers,
    }
    return scope, fault


class Stream:
    """Open until the answer is complete, the client resets it, or the connection is gone; then `on_closed` is called, once."""

    def __init__(
        self,
        id: int,
        scope: dict[str, Any],
        connection: H2Connection,
        state: ServerState,
        flow: FlowControl,
        flush: Callable[[], None],
        on_closed: Callable[[], None],
    ) -> None:
        self.id = id
        self.scope = scope
        self.closed = False
        self._connection = connection
        self._state = state
        self._flow = flow
        self._flush = flush
        self._on_closed = on_closed

        self._pieces: list[bytes] = []
        self._unread = 0  # flow-controlled bytes not yet acknowledged to the client
        self._request_ended = False
        self._end_was_read = False
        self._discards = False
        self._news = asyncio.Event()

        self._window = asyncio.Event()
        self._answering = False
        self._held: tuple[int, Any] | None = None  # status and headers, while the request is not complete
        self._complete = False
        self._promised: int | None = None  # the rest of content-length
        self._awaits_continue = (b"expect", b"100-continue") in scope["headers"]

    async def run(self, app: Application) -> None:
        try:
            await app(self.scope, self.receive, self.send)
            if not self.closed:
                _log.error("ASGI callable returned without completing response.")
        except Exception as error:
            _log.error("Exception in ASGI application\n", exc_info=error)
        finally:
            if not self.closed and not self._answering:
                await refusal(500, "internal", "The server failed to do this; see its log.")(self.scope, self.receive, self.send)
            if not self.closed:
                self._connection.reset_stream(self.id, ErrorCodes.INTERNAL_ERROR)
                self._close()
                self._flush()

    # Events from the client

    def body_came(self, data: bytes, flow_controlled: int) -> None:
        self._unread += flow_controlled
        if self._discards:
            self._give_back()
        elif data:
            self._pieces.append(data)
            self._news.set()

    def request_ended(self) -> None:
        self._request_ended = True
        self._news.set()

    def window_opened(self) -> None:
        self._window.set()

    def lose(self) -> None:
        """The client reset the stream, or is gone."""
        if not self.closed:
            self._close()

    # Called by the application

    async def receive(self) -> Message:
        if self._awaits_continue and not self.closed and not self._answering:
            self._awaits_continue = False
            self._connection.send_headers(self.id, [(b":status", b"100")])
            self._flush()
        while not (self.closed or self._pieces or (self._request_ended and not self._end_was_read)):
            self._news.clear()
            await self._news.wait()
        if self.closed:
            return {"type": "http.disconnect"}
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._give_back()
        self._end_was_read = self._request_ended
        return {"type": "http.request", "body": body, "more_body": not self._request_ended}

    async def send(self, message: Message) -> None:
        if self._complete:
            raise RuntimeError(f"Unexpected ASGI message '{message['type']}' sent, after response already completed.")
        wanted = "http.response.body" if self._answering else "http.response.start"
        if message["type"] != wanted and not self.closed:
            raise RuntimeError(f"Expected ASGI message '{wanted}', but got '{message['type']}'.")
        if self._flow.write_paused and not self.closed:
            await self._flow.drain()
        if self.closed:
            return
        if not self._answering:
            self._answering = True
            self._held = message["status"], message.get("headers", ())
            if self._request_ended:
                self._send_headers(*self._held)
            return
        last = not message.get("more_body", False)
        if self._held and last and not self._request_ended:
            await self._sit_out_upload()
        if self._held and not self.closed:
            self._send_headers(*self._held)
        await self._send_body(message.get("body", b""), last=last)

    def _send_headers(self, status: int, headers: Any) -> None:
        self._held = None
        fields = [(b":status", b"%d" % status)]
        for name, value in chain(self._state.default_headers, headers):
            field = name.lower()
            if HEADER_RE.search(field) or HEADER_VALUE_RE.search(value):
                raise RuntimeError("Invalid HTTP header.")
            if field == b"content-length":
                self._promised = int(value)
            if field not in _ONLY_HTTP1:
                fields.append((field, value))
        if self.scope["method"] == "HEAD":
            self._promised = None
        self._connection.send_headers(self.id, fields)
        self._flush()
        if _access.hasHandlers():
            path = get_path_with_query_string(self.scope)  # type: ignore[arg-type]  # of this shape, built as a plain dict
            client = get_client_addr(self.scope)  # type: ignore[arg-type]
            _access.info('%s - "%s %s HTTP/%s" %d', client, self.scope["method"], path, "2", status)

    async def _send_body(self, body: bytes, *, last: bool) -> None:
        if self.scope["method"] == "HEAD":
            body = b""
        if self._promised is not None:
            self._promised -= len(body)
            if self._promised < 0 or (last and self._promised):
                raise RuntimeError("Response content longer or shorter than Content-Length")
        rest = memoryview(body)
        while room := await self._room(len(rest)):
            self._connection.send_data(self.id, rest[:room])
            self._flush()
            rest = rest[room:]
            # One frame per turn of the loop, so that a long answer leaves the others their part of the shared window.
            await asyncio.sleep(0)
        if not self.closed and (rest or last):
            self._connection.send_data(self.id, rest, end_stream=last)
            if last:
                self._finish()
            self._flush()

    async def _room(self, wanted: int) -> int:
        """How many of `wanted` bytes go into the next frame; 0 if all fit, or if the stream is closed."""
        while not self.closed:
            if self._flow.write_paused:
                await self._flow.drain()
                continue
            room = min(self._connection.local_flow_control_window(self.id), self._connection.max_outbound_frame_size)
            if wanted <= max(room, 0):
                return 0
            if room > 0:
                return room
            self._window.clear()
            await self._window.wait()
        return 0

    def _finish(self) -> None:
        self._complete = True
        self._state.total_requests += 1
        if not self._request_ended:
            self._connection.reset_stream(self.id, ErrorCodes.NO_ERROR)
        self._close()

    async def _sit_out_upload(self) -> None:
        """Lets a client that is answered early finish sending: some (curl 7) hang, or lose the answer, if they are cut off."""
        self._discards = True
        self._pieces.clear()
        self._give_back()
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while not (self.closed or self._request_ended):
                    self._news.clear()
                    await self._news.wait()

    def _close(self) -> None:
        self.closed = True
        self._pieces.clear()
        self._give_back()
        self._news.set()
        self._window.set()
        self._on_closed()

    def _give_back(self) -> None:
        if self._unread:
            self._connection.acknowledge_received_data(self._unread, self.id)
            self._unread = 0
            self._flush()
