"""A queue that nobody has used begins with what its API promises, also when it is not for the first time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowq.server.compat.registry import NAMES, chosen, open_apis
from rowq.server.compat.request import Adopted
from tests.server.support import ask
from tests.support.blocking import LoopThread
from tests.support.database import KINDS, new_database
from tests.support.server import Server

SENDS = {
    "forq": ("orders", "/api/v1/queues/orders/messages", {"content": "x"}),
    "keyval": ("keyval", "/keyval/api/queue/enqueue", {"value": "x"}),
    "queueti": ("orders", "/api/messages", {"topic": "orders", "payload": "eA=="}),
}


@pytest.fixture(params=KINDS)
def servers(request: pytest.FixtureRequest, tmp_path: Path, loop: LoopThread) -> Iterator[list[Server]]:
    """Two on one database."""
    url = new_database(request.param, tmp_path).url
    both = [Server(loop, url, compat=open_apis(NAMES, {}), maintenance=False) for _ in range(2)]
    yield both
    for server in both:
        server.stop()


@pytest.mark.parametrize("api", NAMES)
@pytest.mark.parametrize("who", ["the server itself", "another one"])
def test_a_queue_that_was_deleted_begins_anew(servers: list[Server], api: str, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Adopted, "LOOK_EVERY", 3_600.0 if who == "the server itself" else 0.0)
    server, other = servers
    deleting = (server if who == "the server itself" else other).engine
    queue, path, body = SENDS[api]
    begun = []
    for _ in range(2):
        assert ask(server, "POST", path, body).status in (200, 201, 204)
        begun.append(server.engine.insights.settings(queue))
        deleting.driver.drive(deleting.verbs.delete_queue(queue))
    assert begun[0] == begun[1]
    assert begun[0].lease_ms is not None


def test_what_another_server_has_begun_holds_for_the_first_message_here(servers: list[Server]) -> None:
    first, second = servers
    for number in range(5):
        topic = f"orders-{number}"
        assert ask(second, "POST", "/api/messages/dequeue", {"topic": topic}).json == {"messages": []}
        ids = [ask(server, "POST", "/api/messages", {"topic": topic, "payload": ""}).json["id"] for server in (first, second)]
        messages = [first.engine.insights.get(id) for id in ids]
        assert [message.expires_at for message in messages] == [message.sent_at + 86_400_000 for message in messages]


def test_an_api_that_is_named_twice_is_one_api() -> None:
    assert chosen("keyval, forq,keyval,none") == ("keyval", "forq")
