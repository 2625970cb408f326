"""A mistyped name over HTTP: the nearest one is named, of a queue and of a field, and only to who may know of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from rowq.model.retry import Delays, Exponential, Linear
from rowq.server.http.fields import REENCODED
from tests.server.support import ask, ask_raw, key, request, serving


def test_the_nearest_name_is_that_of_a_queue_which_the_key_may_know(tmp_path: Path) -> None:
    with serving(tmp_path, key("boss", "admin"), key("guest", "admin", queues=("team-a-*",))) as server:
        for queue in ("team-b-invoices", "team-a-orders"):
            assert ask(server, "POST", f"/v1/queues/{queue}/messages", {"payload": 1}, secret="rowq_boss").status == 201
        answer = ask(server, "POST", "/v1/queues/team-a-invoices/pause", secret="rowq_boss")
        assert (answer.status, answer.json["code"]) == (404, "queue_not_found")
        assert "did you mean 'team-b-invoices'?" in answer.json["error"]
        assert "team-b" not in ask(server, "POST", "/v1/queues/team-a-invoices/pause", secret="rowq_guest").json["error"]
        told = ask(server, "POST", "/v1/queues/team-a-ordesr/pause", secret="rowq_guest").json["error"]
        assert "did you mean 'team-a-orders'?" in told


def test_what_operators_did_tells_a_key_of_some_queues_nothing_of_others(tmp_path: Path) -> None:
    with serving(tmp_path, key("boss", "admin"), key("guest", "admin", queues=("team-a-*",))) as server:
        assert ask(server, "POST", "/v1/queues/team-b-orders/messages", {"payload": 1}, secret="rowq_boss").status == 201
        for queue in ("team-b-orders", "team-b-nothing", "team-b-orders-dlq"):
            answer = ask(server, "GET", f"/v1/actions?queue={queue}", secret="rowq_guest")
            assert (answer.status, answer.json) == (200, {"events": []})
        for secret, queue in (("rowq_guest", "team-a-nothing"), ("rowq_boss", "team-b-nothing")):
            assert ask(server, "GET", f"/v1/actions?queue={queue}", secret=secret).problem == (404, "queue_not_found")


@pytest.mark.parametrize(
    ("path", "body", "meant"),
    [
        ("/v1/queues/q/messages", {"payload": 1, "delya_ms": 5}, "delay_ms"),
        ("/v1/queues/q/messages", {"messages": [{"payload": 1, "prioritiy": 5}]}, "priority"),
        ("/v1/queues/q/deliveries", {"wiat_ms": 5}, "wait_ms"),
        ("/v1/nack", {"receipts": ["x"], "delay": 5}, "delay_ms"),
        ("/v1/queues/q/dead/redrive", {"reson": "x"}, "reason"),
    ],
)
def test_a_field_that_is_not_known_comes_with_the_one_that_is(tmp_path: Path, path: str, body: dict[str, Any], meant: str) -> None:
    with serving(tmp_path) as server:
        answer = ask(server, "POST", path, body)
        assert (answer.status, answer.json["code"]) == (400, "invalid_argument")
        assert f"did you mean `{meant}`?" in answer.json["error"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/queues/q/messages", b'{"payload": 1, "payload": 2}', "payload"),
        ("/v1/queues/q/messages", b'{"payload": {"a": 1}, "key": "x", "key": "y"}', "key"),
        ("/v1/queues/q/messages", b'{"messages": [{"payload": 1}, {"payload": 2, "payload": 3}]}', "payload"),
        ("/v1/queues/q/messages", b'{"messages": [{"payload": 1, "key": "a", "key": "b"}, {"payload": 2}]}', "key"),
        ("/v1/queues/q/messages", b'{"messages": [%b {"payload": 2, "payload": 3}]}' % (b'{"payload": 1},' * 2_000), "payload"),
        ("/v1/queues/q/messages", b'{"messages": [%b {"payload": 2, "key": "a", "key": "b"}]}' % (b'{"payload": 1},' * 2_000), "key"),
        ("/v1/queues/q/messages", b'{"payload": 1, "key": "x", "k\\u0065y": "y"}', "key"),
        ("/v1/queues/q/messages", b'{"payload": 1, "headers": {"a": "\\u0022\\u0022"}, "delay_ms": 1, "delay_ms": 2}', "delay_ms"),
        ("/v1/queues/q/messages", b'{"payload": 1, "payload": 2, "backoff_ms": {"kind": "linear", "step_ms": 5}}', "payload"),
        ("/v1/queues/q/messages", b'{"payload": 21, "key": "x", "payload": 1}', "payload"),
        ("/v1/queues/q/messages", b'{"messages": [{"payload": 1}], "messages": [{"payload": 22, "key": "x"}]}', "messages"),
        (
            "/v1/queues/q/messages",
            b'{"messages": [{"payload": 1, "key": "a", "key": "b"}, {"payload": 2, "backoff_ms": {"kind": "linear", "step_ms": 5}}]}',
            "key",
        ),
        ("/v1/api-keys", b'{"name": "k", "scopes": ["send"], "scopes": ["admin"]}', "scopes"),
        ("/v1/queues/q/consumers", b'{"dead_after_ms": 1000, "dead_after_ms": 9000}', "dead_after_ms"),
        ("/v1/queues/q/deliveries", b'{"max": 1, "max": 10}', "max"),
        ("/v1/nack", b'{"receipts": ["x"], "delay_ms": 1, "delay_ms": 2}', "delay_ms"),
        ("/v1/queues/q/dead/redrive", b'{"limit": 1, "limit": 2}', "limit"),
    ],
)
def test_a_field_that_is_there_twice_is_refused(tmp_path: Path, path: str, body: bytes, field: str) -> None:
    with serving(tmp_path) as server:
        answer = ask(server, "POST", path, body)
        assert answer.status == 400
        assert f"the field `{field}` twice" in answer.json["error"]
        assert ask(server, "GET", "/v1/queues").json["queues"] == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"payload": {"key": 1, "key": 2}}',
        b'{"payload": {"payload": {"payload": 1}}, "key": "x"}',
        b'{"messages": [{"payload": {"payload": 1}}, {"payload": "\\"payload\\""}]}',
    ],
)
def test_what_is_in_a_payload_is_the_senders(tmp_path: Path, body: bytes) -> None:
    with serving(tmp_path) as server:
        assert ask(server, "POST", "/v1/queues/q/messages", body).status == 201


def test_a_second_host_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        answer = ask_raw(server, request("GET", "/v1/queues", "Host: example.com"))
        assert answer.status == 400
        assert "more than one Host" in answer.json["error"]


def test_encoding_a_body_of_the_hot_routes_again_adds_nothing() -> None:
    """The look for duplicate fields counts on it: a default that is written would hide a field that was dropped."""
    for kind in REENCODED:
        for inner in _structs_in(kind):
            assert inner.__struct_config__.omit_defaults or inner in (Delays, Linear, Exponential), inner


def _structs_in(kind: Any) -> Iterator[Any]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from _structs_in(field.type)
    for argument in get_args(kind):
        yield from _structs_in(argument)
