"""Bytes on real connections to the real server, as no client would write them: refused or answered, never with a failure of the server,
and nothing of it stays behind."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest

from rowq.server.http.connection import PREFACE
from rowq.server.service import Limits
from tests.fuzz.connections import Application
from tests.fuzz.conversation import AT_ONCE, PATIENCE, connect, conversations
from tests.fuzz.corpus import keep
from tests.fuzz.mutation import inputs
from tests.fuzz.scene import scene
from tests.fuzz.targets import TARGETS
from tests.server.support import ADMIN, ask, read_answer
from tests.server.test_protocol import serving as serving_tiny
from tests.support.patience import eventually
from tests.support.server import Server

STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def request(target: str, body: bytes, *lines: str, method: str = "POST", length: bool = True) -> bytes:
    said = [
        f"{method} {target} HTTP/1.1",
        "Host: localhost",
        f"X-API-Key: {ADMIN}",
        *lines,
        *([f"Content-Length: {len(body)}"] if length else []),
    ]
    return "\r\n".join([*said, "", ""]).encode() + body


def in_chunks(body: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:3], body[3:])) + b"0\r\n\r\n"


SEND, RECEIVE = "/v1/queues/wire/messages", "/v1/queues/wire/deliveries"
BODY = b'{"payload":"x"}'
CHUNKED = request(SEND, in_chunks(BODY), "Transfer-Encoding: chunked", length=False)
SEEDS = (
    request(SEND, BODY),
    CHUNKED,
    request(SEND, BODY, "Idempotency-Key: a") + request(RECEIVE, b"{}") + request("/v1/queues/wire/stats", b"", method="GET"),
    request(RECEIVE, b'{"max":3,"wait_ms":1}') + request("/v1/ack", b'{"receipts":["a"]}'),
    request(SEND, BODY, "Connection: Upgrade", "Upgrade: websocket") + request(RECEIVE, b""),
    request("/v1/queues/wire?x=%20", b'{"lease_ms":5}', "Expect: 100-continue", method="PUT"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with scene("sqlite", tmp_path_factory.mktemp("wire")) as server:
        assert ask(server, "PUT", "/v1/queues/wire", {}, secret=ADMIN).status == 200
        yield server
        eventually(lambda: not server.call(lambda: set(server._state.tasks)))


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that gives up bodies which do not arrive. A busy machine may delay sound ones for as long."""
    with scene("sqlite", tmp_path_factory.mktemp("impatient"), limits=Limits(body_timeout=0.5)) as server:
        yield server
        eventually(lambda: not server.call(lambda: set(server._state.tasks)))


SHORT_AND_LONG = pytest.mark.parametrize(
    ("count", "random", "quiet"),
    [
        pytest.param(AT_ONCE, Random(1), 0.3, id="the same every time"),
        pytest.param(
            2 * AT_ONCE,
            Random(),
            1.0,
            id="others every time",
            marks=pytest.mark.prove("twice as many, and others every time; those that are the same stand for it"),
        ),
    ],
)


@pytest.mark.parametrize("said", [request(SEND, BODY), CHUNKED], ids=["whole", "in chunks"])
def test_a_request_is_the_same_wherever_it_is_cut(server: Server, said: bytes) -> None:
    before = ask(server, "GET", "/v1/queues/wire/stats", secret=ADMIN).json["ready"]
    with connect(server.port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(1, len(said)):
            connection.sendall(said[:at])
            connection.sendall(said[at:])
            assert read_answer(connection).status == 201
    assert ask(server, "GET", "/v1/queues/wire/stats", secret=ADMIN).json["ready"] == before + len(said) - 1


@SHORT_AND_LONG
def test_no_bytes_make_the_server_fail(impatient: Server, count: int, random: Random, quiet: float) -> None:
    for data, heard in conversations(impatient.port, list(islice(inputs(SEEDS, random), count)), quiet):
        statuses = [int(status) for status in STATUS.findall(heard)]
        if any(status >= 500 for status in statuses):
            keep("http1", data)
        assert all(status < 500 for status in statuses), (data, heard)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000, 431),
        (b"GET / HTTP/1.1\r\na: " + b"b" * 200_000, 431),
        (b"GET /" + b"a" * 200_000, 431),
        (request(SEND, b"FFFFFFFFFFFFFFFFF\r\n", "Transfer-Encoding: chunked", length=False), 400),
        (request(SEND, b"-1\r\n", "Transfer-Encoding: chunked", length=False), 400),
        (request(SEND, b"7fffffffffffffff\r\nx", "Transfer-Encoding: chunked", length=False), 408),
        (request(SEND, b"1;" + b"x" * 200_000, "Transfer-Encoding: chunked", length=False), 431),
        (request(SEND, in_chunks(BODY)[:-2] + b"t: " + b"x" * 200_000, "Transfer-Encoding: chunked", length=False), 431),
        (request(SEND, BODY, "Transfer-Encoding: chunked"), 400),
        (request(SEND, BODY, "Transfer-Encoding: gzip, chunked", length=False), 400),
        (request(SEND, BODY, "Content-Length: +15", length=False), 400),
        (request(SEND, BODY, "Content-Length: 99999999999999999999", length=False), 400),
        (request(SEND, BODY, "Content-Length: 15, 15", length=False), 400),
        (request("/v1/queues/wire/stats", b"", method="GET") * 3_000, 429),
    ],
    ids=lambda given: repr(given[-30:]) if isinstance(given, bytes) else str(given),
)
def test_floods_and_false_lengths_are_refused(server: Server, impatient: Server, data: bytes, status: int) -> None:
    """The server hangs up by itself: the client says goodbye only if that takes half of its patience."""
    ((_, heard),) = conversations((impatient if status == 408 else server).port, [data], quiet=PATIENCE / 2)
    found = [int(each) for each in STATUS.findall(heard)]
    assert found and found[-1] == status and set(found[:-1]) <= {200}, (found, heard[-300:])


@SHORT_AND_LONG
def test_no_frames_make_the_server_fail(caplog: pytest.LogCaptureFixture, count: int, random: Random, quiet: float) -> None:
    """HTTP/2, in front of an application that answers whatever comes."""
    app = Application()
    with serving_tiny(http2=True) as served:
        served.server.config.loaded_app = app
        said = [PREFACE + data for data in islice(inputs(TARGETS["http2"].seeds, random), count)]
        conversations(served.port, said, quiet)
        state = served.server.server_state
        eventually(lambda: not state.tasks and not state.connections)
        before = len(app.seen)
        with connect(served.port) as connection:
            connection.sendall(PREFACE + TARGETS["http2"].seeds[1])
            eventually(lambda: len(app.seen) == before + 3)
    assert sorted(app.seen[before:]) == [("GET", "/c", b""), ("POST", "/a", b"hello"), ("PUT", "/b", b"x" * 300)]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_server_that_does_not_hang_up_is_found_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf, pytest.raises(AssertionError, match="not hung up on"):
        conversations(deaf.getsockname()[1], [b"x"], quiet=0.1, patience=0.3)
