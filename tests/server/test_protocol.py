"""The connection layer over HTTP/1.1: what it lets through unchanged, and whom it turns away, how."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn

import rowq
from rowq.server.http.connection import make_protocol
from tests.support.patience import DEADLINE, eventually

LIMITS: dict[str, Any] = {"http2": False, "max_header_bytes": 2000, "header_timeout": 60.0, "max_connections": 100}


class Tiny:
    """An application of a few paths, and what it has seen. A test opens a gate to let `/hold` answer, or `/events` go one further."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.scopes: list[dict[str, Any]] = []
        self.gates: dict[str, asyncio.Semaphore] = {}
        self.loop: asyncio.AbstractEventLoop

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.scopes.append(scope)
        verb, _, name = scope["path"].strip("/").partition("/")
        self.seen.append(f"{verb} {name}".strip())
        await getattr(self, f"do_{verb}")(name, receive, send)

    def open(self, name: str = "") -> None:
        eventually(lambda: self.seen)
        self.loop.call_soon_threadsafe(lambda: self._authenticator(name).release())

    def _authenticator(self, name: str) -> asyncio.Semaphore:
        return self.gates.setdefault(name, asyncio.Semaphore(0))

    async def do_echo(self, name: str, receive: Any, send: Any) -> None:
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.seen.append(f"gone {name}".strip())
                return
            body += message["body"]
            more = message["more_body"]
        await self._answer(send, bytes(body))

    async def do_hold(self, name: str, receive: Any, send: Any) -> None:
        await self._authenticator(name).acquire()
        await self.do_echo(name, receive, send)

    async def do_early(self, name: str, receive: Any, send: Any) -> None:
        await self._answer(send, b"enough")

    async def do_watch(self, name: str, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.seen.append(f"gone {name}".strip())

    async def do_events(self, name: str, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for number in range(3):
            await self._authenticator(name).acquire()
            await send({"type": "http.response.body", "body": b"data: %d\n\n" % number, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def do_beat(self, name: str, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with suppress(asyncio.CancelledError):
            while True:
                with suppress(TimeoutError):
                    if (await asyncio.wait_for(receive(), 0.01))["type"] == "http.disconnect":
                        break
                await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
        self.seen.append(f"gone {name}".strip())

    async def do_fail(self, name: str, receive: Any, send: Any) -> None:
        if name == "late":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise LookupError("on purpose")

    async def _answer(self, send: Any, body: bytes) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})


@dataclass
class Served:
    port: int
    app: Tiny
    server: uvicorn.Server
    thread: threading.Thread
    protocol: Any
    """The class of its connections: a test may shorten the `header_timeout` of those to come, once others have what they need."""

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE)

    def say(self, *pieces: bytes) -> Client:
        client = Client(self.connect())
        for piece in pieces:
            client.say(piece)
        return client


@contextmanager
def serving(loop: str = "uvloop", keep_alive: int = 5, **limits: Any) -> Iterator[Served]:
    app = Tiny()
    protocol = make_protocol(**(LIMITS | limits))
    config = uvicorn.Config(
        app,
        http=protocol,
        port=0,
        loop=loop,
        lifespan="off",
        log_config=None,
        timeout_keep_alive=keep_alive,
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started)
        yield Served(server.servers[0].sockets[0].getsockname()[1], app, server, thread, protocol)
    finally:
        server.should_exit = True
        thread.join(DEADLINE)
        assert not thread.is_alive()


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        problem = json.loads(self.body)
        assert problem.keys() == {"code", "error"}
        assert self.headers["content-type"] == "application/json"
        return str(problem["code"])


class Client:
    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.file = connected.makefile("rb")

    def say(self, piece: bytes) -> None:
        self.socket.sendall(piece)

    def answer(self) -> Answer:
        status = int(self.file.readline().split()[1])
        headers = {}
        while line := self.file.readline().strip().decode():
            name, _, value = line.partition(": ")
            headers[name] = value
        return Answer(status, headers, self.file.read(int(headers["content-length"])))

    def is_turned_away(self, status: int, code: str) -> bool:
        answer = self.answer()
        assert (answer.status, answer.code, answer.headers["connection"]) == (status, code, "close")
        return self.file.read() == b""

    def has_answer(self) -> bool:
        return bool(select.select([self.socket], [], [], 0)[0])

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest) -> str:
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    return str(request.param)


@pytest.fixture
def served(loop: str) -> Iterator[Served]:
    with serving(loop) as served:
        yield served


def get(path: str = "/echo", *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


def post(body: bytes, path: str = "/echo", *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def of_size(size: int) -> bytes:
    """A request whose line and headers have so many bytes."""
    return get("/echo", "X-Long: " + "a" * (size - len(get("/echo", "X-Long: "))))


def test_a_connection_serves_one_request_after_the_other(served: Served) -> None:
    client = served.say()
    for body in (b"one", b"two"):
        client.say(post(body))
        assert client.answer().body == body
    client.close()


def test_requests_that_come_together_are_answered_in_order(served: Served) -> None:
    client = served.say(post(b"a", "/hold/a") + post(b"b") + get("/echo") + post(b"c"))
    eventually(lambda: served.app.seen == ["hold a"])
    served.app.open("a")
    assert [client.answer().body for _ in range(4)] == [b"a", b"b", b"", b"c"]
    client.close()


def test_a_chunked_body_arrives_whole_and_its_trailers_are_no_headers(served: Served) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    client = served.say(head, b"3\r\nabc\r\n4\r\nde", b"fg\r\n0\r\nX-Api-Key: stolen\r\n\r\n" + get())
    assert client.answer().body == b"abcdefg"
    assert client.answer().status == 200
    assert all(b"x-api-key" not in dict(scope["headers"]) for scope in served.app.scopes)
    client.close()


def test_headers_of_exactly_the_limit_are_served(served: Served) -> None:
    whole = of_size(LIMITS["max_header_bytes"])
    client = served.say(whole)
    assert client.answer().status == 200
    for piece in (whole[:700], whole[700:]):
        client.say(piece)
    assert client.answer().status == 200
    client.close()


@pytest.mark.parametrize("piece", [10_000, 300])
def test_headers_of_a_byte_more_are_refused(served: Served, piece: int) -> None:
    request = of_size(LIMITS["max_header_bytes"] + 1)
    client = served.say(*(request[start : start + piece] for start in range(0, len(request), piece)))
    assert client.is_turned_away(431, "headers_too_large")
    client.close()
    assert served.app.seen == []


@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nX: "])
def test_a_header_without_end_is_refused_before_it_ends(served: Served, start: bytes) -> None:
    client = served.say(start + b"a" * 5000)
    assert client.is_turned_away(431, "headers_too_large")
    client.close()


def test_trailers_without_end_are_refused_too(served: Served) -> None:
    client = served.say(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n")
    eventually(lambda: served.app.seen == ["echo"])
    client.say(b"X-Long: " + b"a" * 5000)
    assert client.is_turned_away(431, "headers_too_large")
    client.close()
    eventually(lambda: served.app.seen == ["echo", "gone"])


def test_a_long_body_does_not_count_as_headers(served: Served) -> None:
    body = b"x" * 100_000
    client = served.say(post(body) + of_size(1500)[:700], of_size(1500)[700:])
    assert client.answer().body == body
    assert client.answer().status == 200
    client.close()


def test_a_client_that_does_not_complete_its_headers_is_told_and_dropped(loop: str) -> None:
    with serving(loop) as served:
        later = served.say(get())
        assert later.answer().status == 200
        served.protocol.header_timeout = 0.1
        silent, slow = served.say(), served.say(b"GET /echo HTT")
        later.say(b"GET /ec")
        for client in (silent, slow, later):
            assert client.is_turned_away(408, "timeout")
            client.close()


def in_time(served: Served, name: str, rest: bytes = b"") -> tuple[Client, str]:
    """A request whose headers came in time, and its name. On a busy machine some do not, and are sent again under another name."""
    client = served.say(get(f"/hold/{name}") + rest)
    eventually(lambda: f"hold {name}" in served.app.seen or client.has_answer())
    if f"hold {name}" in served.app.seen:
        return client, name
    client.close()
    return in_time(served, f"{name}_", rest)


def test_a_request_that_takes_its_time_is_not_slow_headers(loop: str) -> None:
    with serving(loop, header_timeout=0.1) as served:
        (holding, a), (impatient, b) = in_time(served, "a"), in_time(served, "b", b"GET /ec")
        waiting = served.say()
        assert waiting.is_turned_away(408, "timeout")
        served.app.open(a)
        served.app.open(b)
        assert holding.answer().status == 200
        assert impatient.answer().status == 200
        assert impatient.is_turned_away(408, "timeout")
        for client in (holding, impatient, waiting):
            client.close()


def test_empty_lines_do_not_keep_a_connection_alive(loop: str) -> None:
    with serving(loop) as served:
        client = served.say(get())
        assert client.answer().status == 200
        served.protocol.header_timeout = 0.1
        client.say(b"\r\n")
        assert client.file.read() == b""
        client.close()


def test_one_connection_too_many_is_sent_away_until_another_leaves(loop: str) -> None:
    with serving(loop, max_connections=2) as served:
        first, second = served.say(get()), served.say(get())
        assert (first.answer().status, second.answer().status) == (200, 200)
        third = served.say(get())
        assert third.is_turned_away(503, "server_unavailable")
        third.close()
        first.close()
        eventually(lambda: len(served.server.server_state.connections) == 1)
        fourth = served.say(get())
        assert fourth.answer().status == 200
        for client in (second, fourth):
            client.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HELO example.com\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"CONNECT example.com:80 HTTP/1.1\r\nHost: example.com\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_no_http_gets_an_answer_in_json(served: Served, garbage: bytes) -> None:
    client = served.say(garbage)
    assert client.is_turned_away(400, "invalid_argument")
    client.close()


def test_garbage_behind_a_request_waits_for_its_answer(served: Served) -> None:
    client = served.say(get("/hold/a") + b"\x00garbage\r\n\r\n")
    eventually(lambda: served.app.seen == ["hold a"])
    served.app.open("a")
    assert client.answer().status == 200
    assert client.is_turned_away(400, "invalid_argument")
    client.close()


def test_a_broken_chunk_is_told_to_both_sides(served: Served) -> None:
    client = served.say(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nXYZ\r\n")
    assert client.is_turned_away(400, "invalid_argument")
    client.close()
    eventually(lambda: served.app.seen == ["echo", "gone"])


def test_a_broken_request_in_the_queue_does_not_harm_the_one_before_it(served: Served) -> None:
    broken = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nXYZ\r\n"
    client = served.say(get("/hold/a") + broken)
    eventually(lambda: served.app.seen == ["hold a"])
    served.app.open("a")
    assert client.answer().status == 200
    assert client.is_turned_away(400, "invalid_argument")
    client.close()
    assert served.app.seen == ["hold a"]


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_an_offer_to_upgrade_is_not_taken_up_and_the_body_is_read(served: Served, protocol: str) -> None:
    offer = (f"Upgrade: {protocol}", "Connection: Upgrade, HTTP2-Settings, keep-alive", "HTTP2-Settings: AAMAAABkAAQAAP__")
    client = served.say(post(b"one", "/echo", *offer) + post(b"two", "/echo", *offer)[:-1], b"o" + post(b"three"))
    assert [client.answer().body for _ in range(3)] == [b"one", b"two", b"three"]
    assert [scope["http_version"] for scope in served.app.scopes] == ["1.1"] * 3
    client.close()


def test_everyone_who_is_served_hears_that_the_client_left(served: Served) -> None:
    client = served.say(get("/beat/a"))
    eventually(lambda: served.app.seen == ["beat a"])
    client.say(get("/echo/b"))
    client.close()
    eventually(lambda: "gone a" in served.app.seen)


def test_a_stop_waits_for_the_request_that_is_being_served(loop: str) -> None:
    with serving(loop) as served:
        idle, busy = served.say(get()), served.say(get("/hold/a"))
        assert idle.answer().status == 200
        eventually(lambda: "hold a" in served.app.seen)
        served.server.should_exit = True
        assert idle.file.read() == b""
        served.app.open("a")
        assert busy.answer().status == 200
        assert busy.file.read() == b""
        served.thread.join(DEADLINE)
        assert not served.thread.is_alive()
        for client in (idle, busy):
            client.close()


def test_http2_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "h2" or name.startswith("rowq.server.http.http2")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "h2", None)
    with pytest.raises(rowq.InvalidArgument, match=r"pip install rowq\[http2\]"):
        make_protocol(**(LIMITS | {"http2": True}))
