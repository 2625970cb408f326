"""Keys open this API as they open the others: by scope, and for the queues that they name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowq.server.compat.registry import open_apis
from tests.compat.keyval.client import QUEUE, Client
from tests.server.support import ADMIN, ask, key, serving
from tests.support.server import Server

WAYS = [
    ("POST", "queue/enqueue", {"send"}),
    ("GET", "queue/poll", {"receive"}),
    ("POST", "queue/ack", {"receive"}),
    ("POST", "queue/nack", {"receive"}),
    ("GET", "queue/stats", {"receive"}),
    ("GET", "queue/dlq", {"receive"}),
    ("GET", "queue/dlq/dlq-001", {"receive"}),
    ("GET", "keys?prefix=a", {"receive"}),
    ("DELETE", "queue/dlq", set()),
    ("DELETE", "queue/dlq/dlq-001", set()),
    ("POST", "queue/dlq/dlq-001/requeue", set()),
    ("GET", "queue/listen", {"receive"}),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    keys = (
        key("admin", "admin"),
        key("sender", "send"),
        key("receiver", "receive"),
        key("own", "send", "receive", "admin", queues=("keyval",)),
        key("other", "send", "receive", "admin", queues=("other",)),
    )
    with serving(tmp_path, *keys, compat=open_apis(("keyval",), {})) as server:
        yield server


@pytest.mark.parametrize(("method", "path", "scopes"), WAYS)
def test_nobody_comes_in_without_a_key_or_with_the_wrong_one(server: Server, method: str, path: str, scopes: set[str]) -> None:
    answer = Client(server).ask(method, path, {})
    assert (answer.status, set(answer.json)) == (401, {"error"})
    assert "www-authenticate" in answer.headers
    answer = Client(server, "rowq_other").ask(method, path, {"value": 1, "id": "x"} if path != "queue/enqueue" else {"value": 1})
    assert (answer.status, set(answer.json)) == (403, {"error"})
    for name, scope in (("sender", "send"), ("receiver", "receive")):
        if scope not in scopes:
            assert Client(server, f"rowq_{name}").ask(method, path, {}).status == 403
        elif path != "queue/listen":
            assert Client(server, f"rowq_{name}").ask(method, path, {"value": 1}).status in (200, 400, 404)


def test_a_key_for_other_queues_sees_and_settles_nothing(server: Server) -> None:
    admin, other = Client(server, ADMIN), Client(server, "rowq_other")
    admin.enqueue("secret")
    message = admin.poll()
    for body in ({"id": message["id"]}, {"id": message["id"], "receipt": message["receipt"]}):
        for verb in ("ack", "nack"):
            assert other.ask("POST", f"queue/{verb}", body).status == 403
    assert admin.stats() == (0, 1, 0)


def test_a_key_for_this_queue_does_everything_with_it(server: Server) -> None:
    own = Client(server, "rowq_own")
    id = own.kill("mine", keysIfUndelivered=[["a"]])
    assert own.ask("POST", f"queue/dlq/{id}/requeue").status == 200
    own.poll()
    own.ack(id)
    assert own.ask("DELETE", "queue/dlq").status == 200
    answer = own.ask("GET", "keys?prefix=a")
    assert (answer.status, set(answer.json)) == (403, {"error"})
    assert len(Client(server, ADMIN).keys("a")) == 1


def test_the_audit_names_who_it_was(server: Server) -> None:
    admin = Client(server, ADMIN)
    id = Client(server, "rowq_own").kill("watched")
    assert admin.ask("DELETE", f"queue/dlq/{id}").status == 200
    events = ask(server, "GET", f"/v1/messages/{id}/audit", secret=ADMIN).json["events"]
    assert [(event["event"], event["actor"]) for event in events][-1] == ("deleted", "key:admin")
    assert {event["actor"] for event in events[:-1]} == {"key:own"}


def test_a_browser_opens_a_stream_with_a_token(server: Server) -> None:
    token = ask(server, "POST", "/v1/tokens", secret="rowq_own").json["token"]
    answer = ask(server, "GET", f"{QUEUE}/poll?token={token}")
    assert (answer.status, answer.json) == (200, {"message": None})


def test_an_api_that_is_not_served_is_not_found(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert Client(server).ask("GET", "queue/stats").status == 404
