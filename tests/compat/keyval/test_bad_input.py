"""What makes no sense is refused in the words of this API, with nothing written and nothing lost."""

from __future__ import annotations

from typing import Any

import pytest

from rowq.server.compat.registry import open_apis
from rowq.server.service import Limits
from tests.compat.keyval.client import QUEUE, Client
from tests.server.support import ask, ask_raw, request, serving

NO_OPTIONS: list[Any] = [
    *(1, [], "delay", {"backofSchedule": [1]}),
    *({"delay": delay} for delay in (-1, "60000", True, 1e300, [1], 366 * 86_400_000 + 1)),
    *({"backoffSchedule": schedule} for schedule in (1000, ["1000"], [-1], [None], [1e300], [0] * 1001)),
    *({"keysIfUndelivered": keys} for keys in ("key", ["key"], [["k"]] * 1001)),
    *({"keysIfUndelivered": [key]} for key in ([], [""], [1.5], [None], ["x" * 1025], ["part"] * 21, ["\0"])),
    *({"priority": priority} for priority in ("high", 1.5, 1 << 31)),
]
NO_MESSAGES: list[Any] = [
    *(b"", b"garbage", b"\xff\xfe", b'{"value": 1', b"[]", b"null", b"{}"),
    *(b'{"valu": 1}', b'{"value": 1, "option": {}}', b'{"value": "\\ud800"}', b'{"value": NaN}', b'{"value": "\xff"}'),
    b'{"value": ' + b"[" * 300 + b"]" * 300 + b"}",
    *({"value": 1, "options": options} for options in NO_OPTIONS),
]
NO_IDS: list[Any] = [b"", b"garbage", b"{}", {"id": ""}, {"id": 1}, {"id": None}, {"id": ["x"]}, {"id": "\0"}, b'{"id": "\\ud800"}', []]


def refused(client: Client, method: str, path: str, body: Any = None) -> str:
    answer = client.ask(method, path, body)
    assert answer.status == 400, (body, answer)
    assert answer.headers["content-type"] == "application/json"
    told = answer.json
    assert set(told) == {"error"} and told["error"].strip(), told
    return str(told["error"])


def test_what_is_no_message_is_refused(served: Client) -> None:
    for body in NO_MESSAGES:
        refused(served, "POST", "queue/enqueue", body)
    assert served.stats() == (0, 0, 0)


@pytest.mark.parametrize("verb", ["ack", "nack"])
def test_what_names_no_message_is_refused(served: Client, verb: str) -> None:
    served.enqueue("held")
    id = served.poll()["id"]
    for body in NO_IDS:
        refused(served, "POST", f"queue/{verb}", body)
    for more in ({"receipt": 1}, {"error": 1}, {"error": "x" * 100_001}):
        refused(served, "POST", f"queue/{verb}", {"id": id, **more})
    assert served.stats() == (0, 1, 0)


def test_nothing_is_taken_for_what_it_is_not(served: Client) -> None:
    """null is how many clients write what they leave out; a fraction of a millisecond is how JavaScript counts."""
    body = {"value": 1, "options": {"delay": None, "backoffSchedule": None, "keysIfUndelivered": None, "priority": None}}
    assert served.ask("POST", "queue/enqueue", body).status == 200
    assert served.ask("POST", "queue/enqueue", {"value": 2, "options": None}).status == 200
    assert served.ask("POST", "queue/enqueue", {"value": 3, "options": {"delay": 0.4, "backoffSchedule": [0.5, 1e3]}}).status == 200
    assert [served.poll()["value"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "limit=", "offset=-1", "offset=x", "offset=1.5", "limit=%ff", "limit=1.5"]
)
def test_a_page_that_cannot_be_is_refused(served: Client, query: str) -> None:
    refused(served, "GET", f"queue/dlq?{query}")


@pytest.mark.parametrize("prefix", ["%00", "a//b", "[1", "[]x", "[1.5]", "[[]]", "%ff", "x" * 1025, "/".join("a" * 21)])
def test_a_prefix_that_cannot_be_is_refused(served: Client, prefix: str) -> None:
    refused(served, "GET", f"keys?prefix={prefix}")


def test_an_id_that_cannot_be_is_refused_and_any_other_unknown(served: Client) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/requeue")):
        refused(served, method, f"queue/dlq/%00{path}")
        for id in ("x" * 10_000, "%F0%9F%98%80", "..", "-1", "0190163d-8694-7000-8000-000000000001"):
            assert served.ask(method, f"queue/dlq/{id}{path}").status == 404


def test_a_value_that_is_too_large_is_told_so(served: Client) -> None:
    answer = served.ask("POST", "queue/enqueue", {"value": "x" * (300 << 10)})
    assert (answer.status, set(answer.json)) == (413, {"error"})
    assert served.stats() == (0, 0, 0)


def test_a_value_that_breaks_the_schema_of_the_queue_is_bad_input(served: Client) -> None:
    assert ask(served.server, "PUT", "/v1/queues/keyval", {"schema": {"type": "object"}}).status == 200
    refused(served, "POST", "queue/enqueue", {"value": 1})
    served.enqueue({})


def test_a_full_queue_says_so(served: Client) -> None:
    assert ask(served.server, "PUT", "/v1/queues/keyval", {"max_depth": 1}).status == 200
    served.enqueue(1)
    answer = served.ask("POST", "queue/enqueue", {"value": 2})
    assert (answer.status, set(answer.json)) == (429, {"error"})


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", "queue/enqueue", "POST"), ("POST", "queue/poll", "GET"), ("PUT", "queue/dlq", "DELETE, GET"), ("DELETE", "keys", "GET")],
)
def test_a_method_that_is_not_there_is_told_with_those_that_are(served: Client, method: str, path: str, allowed: str) -> None:
    answer = served.ask(method, path)
    assert (answer.status, answer.headers["allow"], set(answer.json)) == (405, allowed, {"error"})


def test_bodies_that_are_too_large_or_too_slow_are_ended(tmp_path: Any) -> None:
    with serving(tmp_path, compat=open_apis(("keyval",), {}), limits=Limits(max_body_bytes=1000, body_timeout=0.2)) as server:
        client = Client(server)
        answer = client.ask("POST", "queue/enqueue", {"value": "x" * 2000})
        assert (answer.status, set(answer.json)) == (413, {"error"})
        slow = ask_raw(server, request("POST", f"{QUEUE}/enqueue", "Content-Length: 100", body=b'{"value":'))
        assert (slow.status, set(slow.json)) == (408, {"error"})
        assert client.stats() == (0, 0, 0)


def test_what_nobody_foresaw_is_told_without_its_details(served: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a secret of the house")

    monkeypatch.setattr(served.server.engine.insights, "stats", fail)
    answer = served.ask("GET", "queue/stats")
    assert answer.status == 500
    assert "secret" not in answer.json["error"]
