"""The connection layer without sockets: bytes go in as they would come, in one piece or byte by byte, and what the application sees of
them must be the same. Nothing is raised, no task is left over, and no answer says that the server failed."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from h2.config import H2Configuration
from h2.connection import H2Connection
from uvicorn.config import Config
from uvicorn.server import ServerState

from rowq.server.http.connection import PREFACE, make_protocol
from tests.fuzz.target import target

_LIMITS: dict[str, Any] = {"max_header_bytes": 2_000, "header_timeout": 10.0, "max_connections": 100}
_HTTP1: Any = make_protocol(http2=False, **_LIMITS)
_EITHER: Any = make_protocol(http2=True, **_LIMITS)
_TURNS = 10
"""Of the loop, at least: as many as any request takes that waits for nobody. Where many come together, each byte may take one more."""
_BETWEEN = 8
"""After so many pieces the application gets its turn."""
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_BY_LIMIT = {429, 431}
"""How many bytes make up what is over a limit depends on how they come."""


class Seen(NamedTuple):
    requests: list[tuple[str, str, bytes]]
    """Those that came whole."""
    statuses: list[int]


class Wire(asyncio.Transport):
    """The server's end of a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: Any) -> None:
        super().__init__({"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 80)})
        self._loop = loop
        self._protocol = protocol
        self._is_closing = False
        self.written = bytearray()
        protocol.connection_made(self)

    def come(self, data: bytes) -> None:
        if not self._is_closing:
            self._protocol.data_received(data)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def write_eof(self) -> None: ...

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close


class Application:
    """Takes a request with its body, and answers how long that was."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.seen.append((scope["method"], scope["path"], body))
        answer = b"%d" % len(body)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(answer))]})
        await send({"type": "http.response.body", "body": answer})


class _Complaints(logging.Handler):
    """What the server logs as its own failure."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(self.format(record))


def converse(kind: Any, pieces: Iterable[bytes]) -> Seen:
    """One connection from its beginning to its end."""
    loop = asyncio.new_event_loop()
    complaints, log = _Complaints(), logging.getLogger("uvicorn.error")
    loop.set_exception_handler(lambda _loop, context: complaints.heard.append(repr(context)))
    log.addHandler(complaints)
    try:
        app = Application()
        wire = loop.run_until_complete(_converse(loop, kind, app, pieces))
    finally:
        log.removeHandler(complaints)
        loop.close()
    assert not complaints.heard, complaints.heard
    return Seen(app.seen, [int(status) for status in _STATUS.findall(wire.written)])


async def _converse(loop: asyncio.AbstractEventLoop, kind: Any, app: Application, pieces: Iterable[bytes]) -> Wire:
    config = Config(app, log_config=None, access_log=False, ws="none", lifespan="off")
    config.load()
    state = ServerState()
    wire = Wire(loop, kind(config=config, server_state=state, app_state={}, _loop=loop))
    turns = _TURNS
    for number, piece in enumerate(pieces):
        turns += len(piece)
        wire.come(piece)
        if number % _BETWEEN == 0:
            await asyncio.sleep(0)
    await _rest(state, turns)
    wire.close()
    await _rest(state, turns)
    assert not state.tasks and len(asyncio.all_tasks(loop)) == 1, f"tasks are left over: {state.tasks}"
    assert not state.connections
    return wire


async def _rest(state: ServerState, turns: int) -> None:
    for turn in range(turns):
        await asyncio.sleep(0)
        if not state.tasks and turn >= _TURNS // 2:
            break


@target(
    b"GET /a?b=c HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /b HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
    b"GET /c HTTP/1.1\r\nConnection: close\r\n\r\n",
    b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
    b"POST /a HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\nContent-Length: 3\r\n\r\nabc"
    b"GET /b HTTP/1.0\r\n\r\n",
    b"POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    b"CONNECT a:1 HTTP/1.1\r\n\r\n",
    b"\r\n\r\nHEAD /%41%ff HTTP/1.1\r\nX: " + b"y" * 1_900 + b"\r\n\r\n",
)
def http1(data: bytes) -> None:
    whole, piecemeal = converse(_HTTP1, [data]), converse(_HTTP1, [data[at : at + 1] for at in range(len(data))])
    for seen in (whole, piecemeal):
        assert all(status < 500 for status in seen.statuses), seen.statuses
    if _BY_LIMIT.isdisjoint(whole.statuses + piecemeal.statuses):
        assert whole == piecemeal


def _session(*requests: tuple[str, str, bytes]) -> bytes:
    """What a client says over HTTP/2, without the preface."""
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    for number, (method, path, body) in enumerate(requests):
        id = 2 * number + 1
        fields = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "localhost"), ("x", "y")]
        client.send_headers(id, fields, end_stream=not body)
        if body:
            client.send_data(id, body, end_stream=True)
    client.ping(b"12345678")
    return client.data_to_send().removeprefix(PREFACE)


@target(
    _session(("GET", "/a", b"")),
    _session(("POST", "/a", b"hello"), ("PUT", "/b?c", b"x" * 300), ("GET", "/c", b"")),
    _session(("POST", "/a", b"hello")) + b"\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08",
    _session(("GET", "/a", b"")) + b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00",
    _session() + b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff",
)
def http2(data: bytes) -> None:
    said = PREFACE + data
    whole, piecemeal = converse(_EITHER, [said]), converse(_EITHER, [said[at : at + 7] for at in range(0, len(said), 7)])
    for method, path, _ in whole.requests + piecemeal.requests:
        assert method and path.startswith(("/", "*"))
