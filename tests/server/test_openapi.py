"""The description of the API is complete, sound, and of this very server."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

import rowq
from rowq.engine.arguments import MAX_NOTE
from rowq.server.api import descriptions, examples
from rowq.server.api.openapi import describe
from rowq.server.api.route import EVENTS, Route
from rowq.server.api.routes import ROUTES
from rowq.server.service import Limits
from tests.docs.page import page
from tests.server.promises import DOCUMENT, check_schema, resolved
from tests.server.support import ADMIN, ask, key, serving
from tests.support.server import Server

OPEN = describe(ROUTES, with_keys=False)
OPERATIONS = {operation["operationId"]: operation for methods in DOCUMENT["paths"].values() for operation in methods.values()}
SCHEMAS = DOCUMENT["components"]["schemas"]


def by_operation(route: Route) -> str:
    return route.operation


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from nodes(item)
    elif isinstance(value, list):
        for item in value:
            yield from nodes(item)


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("open")) as server:
        yield server


def test_every_route_is_described_and_nothing_else() -> None:
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}


def test_every_operation_has_a_name_of_its_own() -> None:
    assert [name for name, times in Counter(route.operation for route in ROUTES).items() if times > 1 or not name] == []


@pytest.mark.parametrize("route", ROUTES, ids=by_operation)
def test_an_operation_is_told_in_words(route: Route) -> None:
    operation = OPERATIONS[route.operation]
    assert operation["summary"] and operation["tags"][0] in descriptions.TAGS
    assert all(parameter["description"] for parameter in operation.get("parameters", []))
    assert all(parameter["example"] for parameter in operation.get("parameters", []) if parameter["in"] == "path")


def test_references_lead_somewhere() -> None:
    assert all(resolved(node) for node in nodes(DOCUMENT) if "$ref" in node)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_is_one(name: str) -> None:
    assert jsonschema_rs.meta.is_valid({**SCHEMAS[name], "$schema": "https://json-schema.org/draft/2020-12/schema"})
    assert SCHEMAS[name]["description"]
    assert all(value["description"] for value in SCHEMAS[name].get("properties", {}).values())


def test_a_payload_is_any_json() -> None:
    for name in ("MessageBody", "DeliveryBody", "MessageLook"):
        assert set(SCHEMAS[name]["properties"]["payload"]) == {"description"}


@pytest.mark.parametrize(
    ("body", "is_sound"),
    [
        ({"payload": None}, True),
        ({"payload_base64": "AA=="}, True),
        ({"messages": []}, True),
        ({"messages": [{"payload": 1}]}, True),
        ({"payload": 1, "backoff_ms": [1, 2]}, True),
        ({"payload": 1, "backoff_ms": {"kind": "linear", "step_ms": 5}}, True),
        ({}, False),
        ({"payload": 1, "payload_base64": "AA=="}, False),
        ({"payload": 1, "messages": []}, False),
        ({"messages": [], "key": "a"}, False),
        ({"messages": [{}]}, False),
        ({"payload_base64": "A"}, False),
        ({"payload": 1, "key": ""}, False),
        ({"payload": 1, "colour": "red"}, False),
        ({"payload": 1, "backoff_ms": {"kind": "cubic", "step_ms": 5}}, False),
    ],
)
def test_a_send_is_one_message_or_several(body: Any, is_sound: bool, open_server: Server) -> None:
    schema = {"$ref": "#/components/schemas/SendBody", "components": DOCUMENT["components"]}
    assert jsonschema_rs.is_valid(schema, body) is is_sound
    assert (ask(open_server, "POST", "/v1/queues/q/messages", body).status == 201) is is_sound


def test_generators_of_clients_find_nothing_that_they_refuse() -> None:
    """tests/server/test_generated_clients.py runs them."""
    for node in nodes(SCHEMAS):
        assert isinstance(node.get("items", {}), dict), f"items: {node['items']} is refused by openapi-python-client"
        assert not ("oneOf" in node and "properties" in node), "of oneOf a union is made, and the properties are lost"


def test_answers_promise_all_that_is_always_there() -> None:
    assert set(SCHEMAS["Stats"]["required"]) == set(rowq.Stats.__struct_fields__)
    assert "payload" not in SCHEMAS["DeliveryBody"]["required"]


@pytest.mark.parametrize("operation", sorted(examples.BODIES))
def test_an_example_of_a_body_is_sound(operation: str) -> None:
    content = OPERATIONS[operation]["requestBody"]["content"]["application/json"]
    for example in content["examples"].values():
        check_schema(content["schema"], example["value"])


@pytest.mark.parametrize("operation", sorted(examples.ANSWERS))
def test_an_example_of_an_answer_is_sound(operation: str) -> None:
    status = next(iter(OPERATIONS[operation]["responses"]))
    content = OPERATIONS[operation]["responses"][status]["content"]["application/json"]
    check_schema(content["schema"], content["example"])


def test_every_word_is_used() -> None:
    fields = {name for schema in SCHEMAS.values() for name in schema.get("properties", {})}
    own = {f"{schema}.{name}" for schema, known in SCHEMAS.items() for name in known.get("properties", {})}
    assert set(descriptions.FIELDS) - fields - own == set()
    assert set(descriptions.SCHEMAS) - set(SCHEMAS) == set()
    parameters = {parameter["name"] for operation in OPERATIONS.values() for parameter in operation.get("parameters", [])}
    assert {name.rpartition(".")[2] for name in descriptions.PARAMETERS} == parameters
    named = {name.partition(".")[0] for name in descriptions.PARAMETERS if "." in name}
    assert (named | set(examples.QUERIES) | set(examples.ANSWERS) | set(examples.EVENTS)) - set(OPERATIONS) == set()
    assert {tag["name"] for tag in DOCUMENT["tags"]} == {route.tag for route in ROUTES}


def test_event_streams_tell_their_events() -> None:
    told = {
        route.operation: OPERATIONS[route.operation]["responses"]["200"]["content"][EVENTS]["x-events"]
        for route in ROUTES
        if route.media == EVENTS
    }
    assert {name: set(events) for name, events in told.items()} == {
        "stream_deliveries": {"delivery", "ping", "problem"},
        "stream_keys": {"set", "removed", "ping", "problem"},
    }


def test_with_keys_every_operation_says_how_to_show_one() -> None:
    schemes = set(DOCUMENT["components"]["securitySchemes"])
    for route in ROUTES:
        ways = {way for each in OPERATIONS[route.operation]["security"] for way in each}
        assert bool(ways) is (route.right is not None)
        assert ways <= schemes
        assert ("Token" in ways) is (route.media == EVENTS)
        assert ("401" in OPERATIONS[route.operation]["responses"]) is (route.right is not None)


def test_without_keys_there_is_nothing_to_show() -> None:
    assert "securitySchemes" not in OPEN["components"]
    assert not any("security" in node or "401" in node for node in nodes(OPEN["paths"]))


def test_the_server_gives_it_out(tmp_path: Path) -> None:
    with serving(tmp_path, key("admin", "admin"), key("measurer", "metrics")) as server:
        answer = ask(server, "GET", "/openapi.json", secret=ADMIN)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json == json.loads(msgspec.json.encode(DOCUMENT))
        assert ask(server, "GET", "/openapi.json", secret="rowq_measurer").status == 200
        assert ask(server, "GET", "/openapi.json").problem == (401, "unauthorized")


def test_a_server_without_keys_gives_out_another_until_it_has_one(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert "securitySchemes" not in ask(server, "GET", "/openapi.json").json["components"]
        secret = ask(server, "POST", "/v1/api-keys", {"name": "first", "scopes": ["admin"]}).json["secret"]
        assert ask(server, "GET", "/openapi.json").problem == (401, "unauthorized")
        assert "securitySchemes" in ask(server, "GET", "/openapi.json", secret=secret).json["components"]


HTTP = page("docs/reference/http.md")
SCOPES = {None: "none", "any": "any key", "look": "receive"}


def test_the_reference_lists_every_route() -> None:
    def scope(route: Route) -> str:
        mark = " *" if "for all queues" in OPERATIONS[route.operation]["description"] else ""
        return SCOPES.get(route.right, route.right or "") + mark

    listed = HTTP.table("route")
    assert listed == [[f"`{route.method} {route.path}`", scope(route), str(route.status), route.summary] for route in ROUTES]


def test_the_reference_lists_every_refusal() -> None:
    listed = {int(row[0]): tuple(re.findall(r"`(\w+)`", row[1])) for row in HTTP.table("status")}
    of_the_connection = {405: ("method_not_allowed",), 431: ("headers_too_large",)}
    assert listed == {status: codes for status, (_, _, codes) in descriptions.REFUSALS.items()} | of_the_connection


def test_the_reference_tells_the_limits_that_hold() -> None:
    told = {row[0]: row[1] for row in HTTP.table("what")}
    most = {name: SCHEMAS[name]["properties"] for name in ("ReceiveBody", "AckBody", "MessageBody")}
    several = SCHEMAS["MessagesBody"]["properties"]["messages"]
    assert told["messages in a send"] == f"{several['maxItems']:,}"
    assert told["messages in a receive"] == f"{most['ReceiveBody']['max']['maximum']:,}"
    assert told["receipts in a settle"] == f"{most['AckBody']['receipts']['maxItems']:,}"
    assert told["a key, a group"].startswith(str(most["MessageBody"]["key"]["anyOf"][0]["maxLength"]))
    assert told["a reason, a consumer"].startswith(f"{MAX_NOTE:,}")
    assert told["a body"].startswith(f"{Limits().max_body_bytes >> 20} MiB")
    assert told["time for a body"].startswith(f"{Limits().body_timeout:g} s")
    assert told["a payload"].startswith(f"{rowq.Policy().max_payload_bytes >> 10} KiB")
