"""Over HTTP a key says what a producer and a consumer may do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from rowq import Broker, Forbidden, Unauthorized
from tests.server.support import key, serving
from tests.support.patience import eventually
from tests.support.server import Server
from tests.worker.handling import Notes, registered


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, key("boss", "admin"), key("pusher", "send"), key("worker", "receive")) as server:
        yield server


def connected(server: Server, name: str) -> Broker:
    return rowq.connect(server.url, api_key=f"rowq_{name}")


def test_a_key_that_may_only_send_produces_and_one_that_may_only_receive_consumes(server: Server) -> None:
    notes = Notes()
    with connected(server, "pusher") as pusher, connected(server, "worker") as worker:
        pusher.producer("q").push("x")
        with worker.consumer("q", notes):
            eventually(lambda: worker.stats("q").depth == 0)
        assert notes.payloads == ["x"]
        assert worker.policy("q") == rowq.Policy(), "nobody who may configure was asked"


def test_a_producer_whose_key_may_not_send_says_so_and_keeps_its_messages(server: Server) -> None:
    with connected(server, "worker") as worker:
        with pytest.raises(Forbidden):
            worker.producer("q").push("x")
        producer = worker.producer("q", batch_size=10, linger=3600)
        pushed = producer.push("x")
        with pytest.raises(Forbidden):
            producer.close()
        assert not pushed.done()


@pytest.mark.parametrize("name", ["pusher", "nobody"])
def test_a_consumer_whose_key_may_not_receive_ends_and_says_why(server: Server, name: str) -> None:
    with connected(server, name) as broker, pytest.raises((Forbidden, Unauthorized)):
        broker.consumer("q", print).run()


def test_a_consumer_whose_key_is_revoked_ends_and_says_why(server: Server) -> None:
    with connected(server, "boss") as boss:
        secret = boss.create_key("guest", scopes=["receive"])
        with rowq.connect(server.url, api_key=secret) as broker:
            consumer = broker.consumer("q", print, beat=0.05).start()
            registered(consumer)
            boss.revoke_key("guest")
            with pytest.raises(Unauthorized):
                consumer.run()
