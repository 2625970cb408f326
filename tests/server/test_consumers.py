"""Consumers over HTTP: which keys open the routes, what is promised of each answer, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.promises import check_promised
from tests.server.support import ADMIN, Answer, ask, key, serving
from tests.support.server import Server

OWN = "5f0c1d5e-8f55-4b7c-9d1e-6a2b7c3d4e5f"
CONSUMERS = "/v1/queues/orders/consumers"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = (key("admin", "admin"), key("sender", "send"), key("receiver", "receive"), key("other", "receive", queues=("emails",)))
    folder: Path = tmp_path_factory.mktemp("consumers")
    with serving(folder, *keys) as server:
        yield server


def tell(server: Server, method: str, path: str, body: Any = None, secret: str = ADMIN) -> Answer:
    answer = ask(server, method, path, body, secret=secret)
    check_promised(method, path, answer)
    return answer


def test_a_consumer_registers_beats_is_listed_and_leaves(server: Server) -> None:
    assert tell(server, "POST", CONSUMERS, {"id": OWN}, "rowq_receiver").json == {"id": OWN, "index": 0, "count": 1}
    made = tell(server, "POST", CONSUMERS, None, "rowq_receiver")
    assert (made.status, made.json["index"], made.json["count"]) == (201, 1, 2)
    assert tell(server, "POST", f"{CONSUMERS}/{OWN}/beat", {"remove_dead": True}, "rowq_receiver").json == {
        "id": OWN,
        "index": 0,
        "count": 2,
    }
    listed = tell(server, "GET", f"{CONSUMERS}?dead_after_ms=60000", None, "rowq_receiver").json["consumers"]
    assert [(each["id"], each["index"]) for each in listed] == [(OWN, 0), (made.json["id"], 1)]
    for id in (OWN, made.json["id"], OWN):
        assert tell(server, "DELETE", f"{CONSUMERS}/{id}", None, "rowq_receiver").status == 204
    assert tell(server, "GET", CONSUMERS).json == {"consumers": []}


def test_registering_again_under_the_same_id_is_the_same_consumer(server: Server) -> None:
    for _ in range(2):
        assert tell(server, "POST", "/v1/queues/again/consumers", {"id": OWN}).json == {"id": OWN, "index": 0, "count": 1}


def test_whoever_is_not_there_is_told_to_register_again(server: Server) -> None:
    for id in (OWN, "nobody"):
        assert tell(server, "POST", f"/v1/queues/empty/consumers/{id}/beat", {}).problem == (410, "consumer_gone")


@pytest.mark.parametrize("secret", ["rowq_sender", "rowq_other"])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", CONSUMERS), ("GET", CONSUMERS), ("POST", f"{CONSUMERS}/{OWN}/beat"), ("DELETE", f"{CONSUMERS}/{OWN}")]
)
def test_a_key_must_receive_from_the_queue(server: Server, method: str, path: str, secret: str) -> None:
    assert tell(server, method, path, None, secret).problem == (403, "forbidden")


@pytest.mark.parametrize(
    "body", [{"id": "x"}, {"id": OWN.upper()}, {"dead_after_ms": 0}, {"dead_after_ms": 3_600_001}, {"dead_after_ms": 1.5}, {"beat": 1}]
)
def test_a_body_that_makes_no_sense_is_refused(server: Server, body: Any) -> None:
    assert tell(server, "POST", CONSUMERS, body).problem == (400, "invalid_argument")


@pytest.mark.parametrize("share", [[1, 1], [0], [0, 1, 2], [0, 10_001], "0/1", {"index": 0}, [-1, 2]])
def test_a_share_that_makes_no_sense_is_refused(server: Server, share: Any) -> None:
    assert tell(server, "POST", "/v1/queues/orders/deliveries", {"share": share}).problem == (400, "invalid_argument")


def test_dead_letters_are_not_shared(server: Server) -> None:
    assert tell(server, "POST", "/v1/queues/orders.dlq/deliveries", {"share": [0, 1]}).problem == (400, "invalid_argument")
    assert tell(server, "POST", "/v1/queues/orders.dlq/consumers", {}).problem == (400, "name_reserved")


def test_all_consumers_are_those_of_the_queues_that_the_key_is_for(server: Server) -> None:
    for queue in ("emails", "parcels"):
        tell(server, "POST", f"/v1/queues/{queue}/messages", {"payload": 1})
        tell(server, "POST", f"/v1/queues/{queue}/deliveries", {"consumer": "worker", "lease_ms": 3_600_000})
    assert tell(server, "GET", "/v1/consumers", secret="rowq_sender").problem == (403, "forbidden")
    assert tell(server, "GET", "/v1/consumers?dead_after_ms=0").problem == (400, "invalid_argument")

    def seen(secret: str) -> list[str]:
        found = tell(server, "GET", "/v1/consumers", secret=secret).json["consumers"]
        return [each["queue"] for each in found if each["id"] == "worker"]

    assert seen("rowq_other") == ["emails"]
    assert seen("rowq_receiver") == ["emails", "parcels"]
