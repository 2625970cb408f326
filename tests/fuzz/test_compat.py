"""Requests to the compatible APIs, sensible and not: a client of another queue breaks nothing either."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import requests
from hypothesis import HealthCheck, settings
from schemathesis import Case, Config
from schemathesis.checks import not_a_server_error
from schemathesis.openapi.loaders import from_dict
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from tests.fuzz.compat_routes import BODIES, COMPAT, ENDLESS, QUERIES, describe, operation
from tests.fuzz.scene import scene
from tests.server.support import ADMIN, ask
from tests.support.database import KINDS
from tests.support.server import Server

ODD = (
    "\0",
    "a\0b",
    "\ud800",
    "🐇" * 50,
    " ",
    "%",
    "a\nb",
    "'",
    "x" * 1_000,
    "0190163d-8694-7000-8000-00000000002a",
    "emails.dlq",
    "-dlq",
    "*",
)

options = {"checks": {"ignored_auth": {"enabled": False}}, "generation": {"with-security-parameters": False}}
schema = from_dict(describe(), config=Config.from_dict(options))
few = from_dict(describe(), config=Config.from_dict({**options, "phases": {"coverage": {"enabled": False}}}))
"""Without the cases that go through the bounds of every field, which are the most."""
usual: dict[str, Any] = {"deadline": None, "derandomize": True, "database": None, "suppress_health_check": list(HealthCheck)}
checks: list[Any] = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with scene(request.param, tmp_path_factory.mktemp("compat"), COMPAT) as server:
        yield server


@pytest.fixture(scope="module")
def session(server: Server) -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


def test_everything_that_is_described_is_a_way_of_an_api() -> None:
    known = {operation(api, way) for api in COMPAT for way in api.ways()}
    assert {*BODIES, *QUERIES, *ENDLESS} <= known
    described = {each["operationId"] for path in describe()["paths"].values() for each in path.values()}
    assert described == known - {*ENDLESS}


def check(case: Case[Any], server: Server, session: requests.Session) -> None:
    response = case.call(base_url=server.url, session=session, headers={"X-API-Key": ADMIN}, timeout=60)
    case.validate_response(response, checks=checks)


@few.parametrize()
@settings(max_examples=1, **usual)
def test_no_request_breaks_an_api(case: Case[Any], server: Server, session: requests.Session) -> None:
    check(case, server, session)


@pytest.mark.prove("six times the examples and the bounds of every field; test_no_request_breaks_an_api stands for it")
@schema.parametrize()
@settings(max_examples=6, **usual)
def test_no_more_requests_break_an_api(case: Case[Any], server: Server, session: requests.Session) -> None:
    check(case, server, session)


@pytest.mark.parametrize("api", COMPAT, ids=lambda api: api.name)
def test_no_name_breaks_an_api(server: Server, api: Any) -> None:
    """Ids and names that no sensible client has, also inside of bodies."""
    for way in api.ways():
        if operation(api, way) in ENDLESS:
            continue
        for odd in ODD if way.method != "GET" or "{" in way.path else ODD[:1]:
            written = quote(odd.encode("utf-8", "surrogatepass"), safe="")
            path = re.sub(r"{\w+}", lambda _, written=written: written, way.path)  # type: ignore[misc]
            body = dict.fromkeys(("id", "receipt", "error", "topic", "content", "value", "key", "payload", "consumer_group"), odd)
            for sent in ({}, body, {**body, "payload": "AAEC", "consumer_group": ""}) if way.method != "GET" else (None,):
                answer = ask(server, way.method, path, sent, secret=ADMIN)
                assert answer.status < 500, (way.method, path, sent, answer)
