"""Thousands of requests, sensible and not, made up from the API's own description: what it promises is what is answered, on every
database, and what was there before is there afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, settings
from schemathesis import Case, Config
from schemathesis.openapi.loaders import from_dict
from schemathesis.specs.openapi.checks import positive_data_acceptance

from rowq.model.duration import LAST_MS, LONGEST_MS
from rowq.server.api.openapi import describe
from rowq.server.api.routes import ROUTES
from tests.fuzz.scene import scene
from tests.server.support import ADMIN
from tests.support.server import Server

LONGEST_WAIT_MS = 20
TODAY_MS = 1_767_225_600_000
BEYOND_A_SCHEMA = {"browse", "browse_dead", "create_api_key", "beat", "remove"}
"""A cursor must be one that was given out, the name of a key be new, a consumer be alive, and what is removed be named somehow: these
refuse what a schema cannot tell."""

options = {"checks": {"ignored_auth": {"enabled": False}}, "generation": {"with-security-parameters": False}}
document, endless = describe(ROUTES, with_keys=True), ["stream_deliveries", "stream_keys"]
schema = from_dict(document, config=Config.from_dict(options)).exclude(operation_id=endless)
few = from_dict(document, config=Config.from_dict({**options, "phases": {"coverage": {"enabled": False}}})).exclude(operation_id=endless)
"""Without the cases that go through the bounds of every field, which are the most."""
usual: dict[str, Any] = {"deadline": None, "derandomize": True, "database": None, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with scene("sqlite", tmp_path_factory.mktemp("routes")) as server:
        yield server


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def far_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with scene(request.param, tmp_path_factory.mktemp("routes")) as server:
        yield server


@pytest.fixture(scope="module")
def session(server: Server) -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


@pytest.fixture(scope="module")
def far_session(far_server: Server) -> Iterator[requests.Session]:
    """Ends before its server, which waits for everybody to leave."""
    with requests.Session() as session:
        yield session


def whole_numbers(value: Any) -> Any:
    """JSON Schema takes 5.0 for an integer, and we do not."""
    match value:
        case dict():
            return {name: whole_numbers(item) for name, item in value.items()}
        case list():
            return [whole_numbers(item) for item in value]
        case float() if value.is_integer():
            return int(value)
    return value


def messages_of(body: dict[str, Any]) -> list[Any]:
    found = body.get("messages")
    return found if isinstance(found, list) else []


def tame(body: Any) -> Any:
    body = whole_numbers(body)
    for message in [body, *messages_of(body)]:
        match message:
            case {"at_ms": int() as at} if 0 <= at <= LAST_MS and at is not True:
                message["at_ms"] = at % TODAY_MS  # a schema cannot tell what lies too far ahead
        match message:
            case {"at_ms": int(), "delay_ms": int() as delay} if 0 < delay <= LONGEST_MS:
                message["delay_ms"] = 0  # nor that one excludes the other
    if isinstance(body.get("wait_ms"), int):
        body["wait_ms"] = min(body["wait_ms"], LONGEST_WAIT_MS)
    match body.get("share"):
        case [int() as index, int() as count] if count > 0:
            body["share"] = [index % count, count]  # a schema cannot tell that one is below the other
    return body


def check(case: Case[Any], server: Server, session: requests.Session) -> None:
    if isinstance(case.body, dict):
        case.body = tame(case.body)
    excluded: list[Any] = [positive_data_acceptance] if case.operation.definition.raw["operationId"] in BEYOND_A_SCHEMA else []
    case.call_and_validate(base_url=server.url, session=session, headers={"X-API-Key": ADMIN}, excluded_checks=excluded, timeout=60)


@few.parametrize()
@settings(max_examples=3, **usual)
def test_the_answer_is_one_that_is_promised(case: Case[Any], server: Server, session: requests.Session) -> None:
    check(case, server, session)


@pytest.mark.prove("five times the examples and the bounds of every field; test_the_answer_is_one_that_is_promised stands for it")
@schema.parametrize()
@settings(max_examples=15, **usual)
def test_every_answer_is_one_that_is_promised(case: Case[Any], server: Server, session: requests.Session) -> None:
    check(case, server, session)


@few.parametrize()
@settings(max_examples=1, **usual)
def test_it_is_so_on_servers_too(case: Case[Any], far_server: Server, far_session: requests.Session) -> None:
    check(case, far_server, far_session)


@pytest.mark.prove("three times the examples and the bounds of every field; test_it_is_so_on_servers_too stands for it")
@schema.parametrize()
@settings(max_examples=3, **usual)
def test_it_is_always_so_on_servers_too(case: Case[Any], far_server: Server, far_session: requests.Session) -> None:
    check(case, far_server, far_session)
