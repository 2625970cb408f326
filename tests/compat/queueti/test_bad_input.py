"""What nobody should send: the right refusal, and nothing is lost or doubled by it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowq.server.service import Limits
from tests.compat.queueti.asking import Topics
from tests.compat.queueti.conftest import Open

ID = "0190163d-8694-7000-8000-0000000003e8"


@pytest.fixture
def api(opened: Open) -> Topics:
    return opened()


@pytest.mark.parametrize("path", ["/messages", "/messages/dequeue", f"/messages/{ID}/ack", f"/messages/{ID}/nack"])
@pytest.mark.parametrize(
    "body",
    [b"garbage", b"[]", b'"text"', b"17", b"null", b"{", b'{"topic": ', b"\xff\xfe", b'{"topic": "\\ud800"}', b"[" * 100_000],
    ids=lambda body: repr(body[:12]),
)
def test_what_is_no_object_is_refused(api: Topics, path: str, body: bytes) -> None:
    assert api.ask("POST", path, body).problem == (400, "invalid_argument")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"topic": "orders"},
        {"payload": "AAAA"},
        {"topic": None, "payload": "AAAA"},
        {"topic": 5, "payload": "AAAA"},
        {"topic": "", "payload": "AAAA"},
        {"topic": "or ders", "payload": "AAAA"},
        {"topic": "or\x00ders", "payload": "AAAA"},
        {"topic": "a" * 65, "payload": "AAAA"},
        {"topic": "orders", "payload": "no base64!"},
        {"topic": "orders", "payload": "AAA"},
        {"topic": "orders", "payload": None},
        {"topic": "orders", "payload": {"amount": 99}},
        {"topic": "orders", "payload": "AAAA", "key": ""},
        {"topic": "orders", "payload": "AAAA", "key": "a" * 256},
        {"topic": "orders", "payload": "AAAA", "key": "a\x00"},
        {"topic": "orders", "payload": "AAAA", "key": 5},
        {"topic": "orders", "payload": "AAAA", "metadata": []},
        {"topic": "orders", "payload": "AAAA", "metadata": {"a": 5}},
        {"topic": "orders", "payload": "AAAA", "metadata": {"a": "\x00"}},
        {"topic": "orders", "payload": "AAAA", "metadata": {"a": "b" * 40_000}},
    ],
    ids=lambda body: str(body)[:60],
)
def test_a_message_that_is_not_possible_is_refused(api: Topics, body: dict[str, Any]) -> None:
    assert api.ask("POST", "/messages", body).problem == (400, "invalid_argument")
    assert api.dequeue("orders") == []
    assert api.ask("GET", "/topic-configs/orders").status == 404, "nor is there a topic"


@pytest.mark.parametrize(
    "fields",
    [
        {"count": 0},
        {"count": 1_001},
        {"count": -1},
        {"count": "1"},
        {"count": None},
        {"visibility_timeout_seconds": 0},
        {"visibility_timeout_seconds": -5},
        {"visibility_timeout_seconds": 2**63},
        {"visibility_timeout_seconds": "60"},
        {"consumer_group": "billing"},
        {"topic": "or ders"},
        {"topic": None},
    ],
    ids=str,
)
def test_a_dequeue_that_is_not_possible_takes_nothing(api: Topics, fields: dict[str, Any]) -> None:
    id = api.send("orders")
    assert api.ask("POST", "/messages/dequeue", {"topic": "orders", **fields}).problem == (400, "invalid_argument")
    assert api.one("orders")["id"] == id


@pytest.mark.parametrize("id", [ID, "abc123", "1", "%20", "%C3%BC", "a" * 2_000])
def test_an_id_that_nobody_has_is_not_found(api: Topics, id: str) -> None:
    for verb in ("ack", "nack", "requeue"):
        assert api.ask("POST", f"/messages/{id}/{verb}").problem == (404, "message_not_found")


@pytest.mark.parametrize("verb", ["ack", "nack", "requeue"])
def test_an_id_that_cannot_be_one_is_refused(api: Topics, verb: str) -> None:
    assert api.ask("POST", f"/messages/%00/{verb}").problem == (400, "invalid_argument")


def test_an_error_that_cannot_be_stored_is_cleaned(api: Topics) -> None:
    id = api.send("orders")
    api.one("orders")
    assert api.nack(id, error="a\x00b" + "x" * 100_000) == 204
    told = api.one("orders")["last_error"]
    assert told.startswith("a\ufffdb") and len(told) == 4_096


def test_a_payload_may_be_empty_and_as_large_as_the_queue_allows(api: Topics) -> None:
    api.send("orders", b"")
    api.send("orders", b"x" * (256 << 10))
    assert [message["payload"][:4] for message in api.dequeue("orders", count=2)] == ["", "eHh4"]
    assert api.enqueue("orders", b"x" * ((256 << 10) + 1)).problem == (413, "payload_too_large")


def test_a_body_that_is_too_large_is_not_read(api: Topics) -> None:
    assert Limits().max_body_bytes == 16 << 20
    assert api.ask("POST", "/messages", b" " * ((16 << 20) + 1)).problem == (413, "body_too_large")


def test_c33_other_methods_are_told_what_is_possible(api: Topics) -> None:
    answer = api.ask("PATCH", "/topic-configs/orders", {})
    assert answer.problem == (405, "method_not_allowed")
    assert answer.headers["allow"] == "DELETE, GET, PUT"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    [
        *("topic", "payload", "metadata", "key", "count", "visibility_timeout_seconds", "consumer_group", "error", "receipt"),
        *("max_retries", "message_ttl_seconds", "max_depth", "throughput_limit", "replayable"),
    ]
)
BODIES = st.dictionaries(FIELDS, JSON | st.sampled_from(["orders", "orders.dlq", "AAAA", 1]), max_size=6)
WAYS = [
    *(("POST", "/messages"), ("POST", "/messages/dequeue"), ("POST", f"/messages/{ID}/ack"), ("POST", f"/messages/{ID}/nack")),
    *(("POST", f"/messages/{ID}/requeue"), ("PUT", "/topic-configs/orders"), ("GET", "/messages"), ("GET", "/stats")),
]


given_bodies = given(way=st.sampled_from(WAYS), body=BODIES)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given_bodies
def test_no_body_makes_the_server_fail(api: Topics, way: tuple[str, str], body: dict[str, Any]) -> None:
    does_not_fail(api, way, body)


@pytest.mark.prove("5 s of examples; test_no_body_makes_the_server_fail stands for it")
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given_bodies
def test_none_of_many_bodies_makes_the_server_fail(api: Topics, way: tuple[str, str], body: dict[str, Any]) -> None:
    does_not_fail(api, way, body)


def does_not_fail(api: Topics, way: tuple[str, str], body: dict[str, Any]) -> None:
    method, path = way
    answer = api.ask(method, path, None if method == "GET" else body)
    assert answer.status in (200, 201, 204, 400, 404, 429), answer
    if answer.status >= 400:
        assert answer.problem[1] in ("invalid_argument", "name_reserved", "message_not_found", "queue_full")
