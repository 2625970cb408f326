"""Long polls: a message wakes its waiter, a client that leaves loses nothing, a server that stops answers everybody."""

from __future__ import annotations

import json
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from rowq.engine import waiting
from tests.server.dialogue import Dialogue
from tests.server.support import ask, serving
from tests.support.patience import eventually
from tests.support.server import Server
from tests.support.serving import Served

MANY = 5_000
FEW = 100


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as server:
        yield server


def receive(server: Server, queue: str = "q", **body: Any) -> list[dict[str, Any]]:
    answer = ask(server, "POST", f"/v1/queues/{queue}/deliveries", body)
    assert answer.status == 200, answer
    deliveries: list[dict[str, Any]] = answer.json["deliveries"]
    return deliveries


def send(server: Server, payload: Any = "x", queue: str = "q") -> None:
    answer = ask(server, "POST", f"/v1/queues/{queue}/messages", {"payload": payload})
    assert answer.status == 201, answer


def stats(server: Server, queue: str = "q") -> dict[str, Any]:
    found: dict[str, Any] = ask(server, "GET", f"/v1/queues/{queue}/stats").json
    return found


def test_a_long_poll_is_answered_by_the_message_that_comes(server: Server) -> None:
    with Dialogue(server) as patient:
        patient.ask("POST", "/v1/queues/q/deliveries", {"wait_ms": 20_000})
        eventually(lambda: server.engine.waiting == 1)
        send(server, {"n": 1})
        status, answer = patient.answer()
    assert status == 200
    assert [delivery["payload"] for delivery in answer["deliveries"]] == [{"n": 1}]


def test_a_long_poll_ends_empty_when_its_time_is_over(server: Server) -> None:
    started = time.monotonic()
    assert receive(server, wait_ms=300) == []
    assert time.monotonic() - started >= 0.25


@pytest.mark.parametrize("wait_ms", [-1, 60_001, "1", 1.5])
def test_patience_has_its_bounds(server: Server, wait_ms: Any) -> None:
    answer = ask(server, "POST", "/v1/queues/q/deliveries", {"wait_ms": wait_ms})
    assert answer.problem == (400, "invalid_argument")
    assert "wait_ms" in answer.json["error"]


def test_a_client_that_leaves_while_it_waits_takes_nothing_along(server: Server) -> None:
    with Dialogue(server) as leaving:
        leaving.ask("POST", "/v1/queues/q/deliveries", {"wait_ms": 20_000})
        eventually(lambda: server.engine.waiting == 1)
    eventually(lambda: server.engine.waiting == 0)
    send(server)
    assert stats(server)["ready"] == 1
    assert len(receive(server)) == 1


@pytest.mark.parametrize("rounds", [3, pytest.param(30, marks=pytest.mark.prove("2 s of requests; three rounds stand for it"))])
def test_messages_for_clients_that_leave_are_released_at_once(server: Server, rounds: int) -> None:
    """Over and over: the client leaves at the very moment when its message comes."""
    for number in range(rounds):
        with Dialogue(server) as leaving:
            leaving.ask("POST", "/v1/queues/q/deliveries", {"wait_ms": 20_000, "lease_ms": 3_600_000})
            eventually(lambda: server.engine.waiting == 1)
            sender = threading.Thread(target=send, args=(server, number))
            sender.start()
            leaving.leave()
            sender.join()
        eventually(lambda: stats(server)["ready"] + stats(server)["leased"] == 1)
        found = receive(server, wait_ms=5_000) if stats(server)["ready"] else []
        for delivery in found:
            ask(server, "POST", "/v1/ack", {"receipts": [delivery["receipt"]]})
        if not found:  # the answer was on its way when the client left: then the lease holds it, unless it is released just now
            eventually(lambda: ask(server, "DELETE", "/v1/queues/q/messages?state=leased&state=ready").json["count"] == 1)
    assert stats(server)["ready"] == 0


def test_a_message_of_an_at_most_once_queue_is_not_given_to_another_when_its_client_leaves(server: Server) -> None:
    ask(server, "PUT", "/v1/queues/q", {"delivery": "at_most_once"})
    with Dialogue(server) as leaving:
        leaving.ask("POST", "/v1/queues/q/deliveries", {"wait_ms": 20_000, "lease_ms": 3_600_000})
        eventually(lambda: server.engine.waiting == 1)
        sender = threading.Thread(target=send, args=(server,))
        sender.start()
        leaving.leave()
        sender.join()
    first = receive(server)
    assert len(first) + stats(server)["leased"] >= 1
    assert receive(server) == []


def test_a_stopping_server_answers_its_waiters(server: Server) -> None:
    with Dialogue(server) as patient:
        patient.ask("POST", "/v1/queues/q/deliveries", {"wait_ms": 60_000})
        eventually(lambda: server.engine.waiting == 1)
        server.call(server.service.stop)
        assert patient.answer() == (200, {"deliveries": []})
    assert ask(server, "GET", "/readyz").problem == (503, "server_unavailable")


def waiters(stack: ExitStack, port: int | None, count: int) -> None:
    request = b'POST /v1/queues/q/deliveries HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17\r\n\r\n{"wait_ms":60000}'
    for _ in range(count):
        sock = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        sock.sendall(request)


def assert_one_look_at_a_time(looks: Callable[[], float], every: float) -> None:
    """Each waiter asks twice when it comes. Once all have, one of them looks in each span, however many wait and however long it takes."""

    def is_one_at_a_time() -> bool:
        before, started = looks(), time.monotonic()
        eventually(lambda: looks() - before >= 3)
        return looks() - before <= (time.monotonic() - started) / every + 1

    eventually(is_one_at_a_time)


def test_many_idle_waiters_cost_one_look_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SAFETY", 0.1)
    with serving(tmp_path, maintenance=False) as server, ExitStack() as stack:
        waiters(stack, server.port, FEW)
        eventually(lambda: server.engine.waiting == FEW)
        meter = server.engine.meter
        assert meter is not None
        assert_one_look_at_a_time(lambda: meter.read_store().calls.total, waiting.SAFETY)
        send(server)
        eventually(lambda: stats(server)["leased"] == 1)


@pytest.mark.prove("15 s of opening connections; test_many_idle_waiters_cost_one_look_at_a_time stands for it")
def test_thousands_of_idle_waiters_cost_one_look_a_second(tmp_path: Path) -> None:
    served = Served(tmp_path, "--json")
    port = urlsplit(served.announced()["url"]).port
    with ExitStack() as stack:
        stack.callback(served.close)
        _allow_files(2 * MANY)
        waiters(stack, port, MANY)
        eventually(lambda: _metric(served, "rowq_waiting_consumers") == MANY, within=60)
        assert_one_look_at_a_time(lambda: _metric(served, "rowq_transaction_calls_sum"), 1.0)
        served.ask("POST", "/v1/queues/q/messages", {"payload": 1})
        eventually(lambda: served.ask("GET", "/v1/queues/q/stats").json["leased"] == 1)


def _metric(served: Served, name: str) -> float:
    lines = served.ask("GET", "/metrics").body.decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


def test_a_long_poll_of_dead_letters_is_woken_by_a_death(server: Server) -> None:
    send(server)
    delivery = receive(server)[0]
    with Dialogue(server) as patient:
        patient.ask("POST", "/v1/queues/q.dlq/deliveries", {"wait_ms": 20_000})
        eventually(lambda: server.engine.waiting == 1)
        ask(server, "POST", "/v1/reject", {"receipts": [delivery["receipt"]], "reason": "bad"})
        status, answer = patient.answer()
    assert status == 200
    assert json.dumps(answer).count(delivery["id"]) >= 1
