"""Errors of a server arrive as the errors of rowq; what is no rowq server is told apart from one that refuses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

import rowq
from rowq import PayloadTooLarge, RowqError, ServerUnavailable, StoreBusy, errors
from rowq.client.http import Answer
from rowq.client.problem import error_of
from rowq.server.service import Limits
from tests.client.conftest import LONG
from tests.support.blocking import LoopThread
from tests.support.server import Server

Serve = Callable[..., str]
PROBLEM = '{"code": "%s", "error": "a sentence"}'


@pytest.mark.parametrize("kind", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RowqError)])
def test_every_error_comes_back_as_itself(kind: type[RowqError]) -> None:
    found = error_of(Answer(400, (PROBLEM % kind.code).encode()), "http://there")
    assert type(found) is (ServerUnavailable if kind is rowq.BrokerClosed else kind)
    assert str(found).startswith("a sentence")


def test_a_code_of_the_future_is_an_error_that_tells_it() -> None:
    found = error_of(Answer(418, (PROBLEM % "teapot").encode()), "http://there")
    assert type(found) is RowqError
    assert "a sentence" in str(found) and "teapot" in str(found)


def test_a_body_over_the_limit_of_the_server_is_too_large(loop: LoopThread, tmp_path: object) -> None:
    server = Server(loop, f"sqlite:///{tmp_path}/jobs.db", maintenance=False, limits=Limits(max_body_bytes=1_000))
    with rowq.connect(server.url) as broker:
        with pytest.raises(PayloadTooLarge):
            broker.send("q", "x" * 2_000)
        with pytest.raises(PayloadTooLarge):
            broker.send("q", "x" * 20_000_000)
        assert broker.queues() == []
    server.stop()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server that gives prepared answers, whatever it is asked; the last one again and again."""
    listening = socket.create_server(("127.0.0.1", 0))

    def run(answers: list[bytes]) -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                with client:
                    client.recv(65_536)
                    client.sendall(answers.pop(0) if len(answers) > 1 else answers[0])

    def start(*answers: bytes) -> str:
        threading.Thread(target=run, args=(list(answers),), daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield start
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def answer(status: str, body: str = "", *lines: str) -> bytes:
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *lines))
    return f"{head}\r\n{body}".encode()


BUSY = answer("503 Service Unavailable", PROBLEM % "store_busy")
NO_QUEUES = answer("200 OK", '{"queues": []}')


@pytest.mark.parametrize("code", ["store_busy", "server_unavailable", "broker_closed"])
def test_not_now_is_asked_again(serve: Serve, code: str) -> None:
    with rowq.connect(serve(answer("503 Busy", PROBLEM % code), NO_QUEUES)) as broker:
        assert broker.queues() == []


def test_a_proxy_that_does_not_reach_the_server_is_asked_again(serve: Serve) -> None:
    with rowq.connect(serve(answer("502 Bad Gateway", "<html>"), answer("504 Gateway Timeout"), NO_QUEUES)) as broker:
        assert broker.queues() == []


def test_busy_for_too_long_is_told_as_it_is(serve: Serve, hasty: None) -> None:
    with rowq.connect(serve(BUSY), timeout=LONG) as broker, pytest.raises(StoreBusy, match="a sentence"):
        broker.send("q", "x")


def test_a_server_that_asks_for_more_time_than_there_is_is_not_waited_for(serve: Serve) -> None:
    later = answer("503 Service Unavailable", PROBLEM % "store_busy", "Retry-After: 60")
    with rowq.connect(serve(later)) as broker, pytest.raises(StoreBusy):
        broker.send("q", "x")


@pytest.mark.parametrize("code", ["store_full", "store_error", "store_read_only"])
def test_what_will_not_pass_by_itself_is_told_at_once(serve: Serve, code: str) -> None:
    with rowq.connect(serve(answer("503 Service Unavailable", PROBLEM % code))) as broker, pytest.raises(RowqError) as error:
        broker.send("q", "x")
    assert error.value.code == code


STRANGERS = {
    "a page": answer("200 OK", "<html>hello</html>"),
    "other JSON": answer("200 OK", '{"hello": "world"}'),
    "another path": answer("404 Not Found", "nothing here"),
    "a redirect": answer("301 Moved Permanently", "", "Location: https://elsewhere.example"),
    "a crash": answer("500 Internal Server Error", "oops"),
}


@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
def test_what_is_no_rowq_server_is_told_to_be_none(serve: Serve, stranger: bytes) -> None:
    with rowq.connect(serve(stranger)) as broker, pytest.raises(ServerUnavailable, match="rowq server"):
        broker.queues()


def test_an_announcement_is_no_answer(serve: Serve) -> None:
    with rowq.connect(serve(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + NO_QUEUES)) as broker:
        assert broker.queues() == []


def test_an_answer_in_chunks_is_put_together(serve: Serve) -> None:
    chunked = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n7\r\n{"queue\r\n8\r\ns": [ ]}\r\n0\r\n\r\n'
    with rowq.connect(serve(chunked)) as broker:
        assert broker.queues() == []
