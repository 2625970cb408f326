"""How long a consumer of Forq waits for a message, and what wakes it: the API with its defaults."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rowq import Broker
from rowq.engine import waiting as room
from rowq.server.compat.forq.api import Options
from rowq.server.compat.registry import open_apis
from tests.server.support import PATIENCE, ask, read_answer, request
from tests.support.blocking import LoopThread
from tests.support.database import new_database
from tests.support.patience import eventually
from tests.support.server import Server

MESSAGES = "/api/v1/queues/emails/messages"
DEAD = "/api/v1/queues/emails-dlq/messages"


@pytest.fixture(autouse=True)
def no_safety_net(monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiting consumer does not look once a second in vain: only what is told wakes it, and no test need be quicker than that."""
    monkeypatch.setattr(room, "SAFETY", 3_600.0)


@pytest.fixture
def server(kind: str, tmp_path: Path, loop: LoopThread) -> Iterator[Server]:
    server = Server(loop, new_database(kind, tmp_path).url, compat=open_apis(("forq",), {}))
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def waiting(server: Server, path: str = MESSAGES) -> Iterator[socket.socket]:
    """A consumer that has looked, found nothing, and waits."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(request("GET", path))
        eventually(lambda: server.engine.waiting == 1)
        yield connection


def is_answered(connection: socket.socket, within: float = PATIENCE) -> bool:
    return bool(select.select([connection], [], [], within)[0])


def test_an_empty_queue_is_told_after_thirty_seconds(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are put on the clock of all waits; the loop only has to be told to look at it."""
    ahead, monotonic = 0.0, time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + ahead)
    assert Options().poll == 30
    with waiting(server) as consumer:
        ahead = 10.0
        server.call(lambda: None)
        assert not is_answered(consumer, within=0.2)
        ahead = 30.0
        server.call(lambda: None)
        assert is_answered(consumer) and read_answer(consumer).status == 204


def test_c30_a_waiting_consumer_is_woken_at_once(server: Server) -> None:
    with waiting(server) as consumer:
        assert ask(server, "POST", MESSAGES, {"content": "now"}).status == 204
        assert is_answered(consumer) and read_answer(consumer).json["content"] == "now"


def test_who_waits_for_dead_letters_is_woken_by_a_death_and_at_the_end_of_a_backoff(server: Server) -> None:
    assert ask(server, "POST", MESSAGES, {"content": "x"}).status == 204
    message = ask(server, "GET", MESSAGES).json
    with waiting(server, DEAD) as consumer:
        Broker(server.engine).reject(message["receipt"])
        assert is_answered(consumer) and read_answer(consumer).json["id"] == message["id"]
    with waiting(server, DEAD) as consumer:
        assert ask(server, "POST", f"{DEAD}/{message['id']}/nack").status == 204
        assert is_answered(consumer) and read_answer(consumer).json["id"] == message["id"]
