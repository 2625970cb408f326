"""No text that a user can give is ever read as SQL: it comes back as it went in, finds what it names and no more, and harms no table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest

import rowq
from rowq import Broker, Where
from rowq.server.api.examples import BODIES, PATHS
from rowq.server.api.route import EVENTS, Route
from rowq.server.api.routes import ROUTES
from tests.security.hostile import ALL, FEW, SQL
from tests.security.world import apis, fetch
from tests.support.blocking import LoopThread
from tests.support.database import KINDS, Database, new_database
from tests.support.server import Server
from tests.support.tables import faults_of

BYSTANDER = "bystander"
_PLACES = re.compile(r"{\w+}")
_ROUTES = [route for route in ROUTES if route.media != EVENTS and (_PLACES.search(route.path) or route.query or route.body)]
_OF_APIS: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/api/v1/queues/TEXT/messages", {"content": "x"}),
    ("POST", "/api/v1/queues/q/messages", {"content": "TEXT"}),
    ("POST", "/api/v1/queues/q/messages/TEXT/ack", None),
    ("POST", "/keyval/api/queue/enqueue", {"value": "TEXT", "options": {"keysIfUndelivered": [["TEXT"]]}}),
    ("POST", "/keyval/api/queue/nack", {"id": "TEXT", "receipt": "TEXT", "error": "TEXT"}),
    ("GET", "/keyval/api/queue/dlq/TEXT", None),
    ("DELETE", "/keyval/api/queue/dlq/TEXT", None),
    ("GET", "/keyval/api/queue/dlq?limit=TEXT&offset=TEXT", None),
    ("GET", "/keyval/api/keys?prefix=TEXT", None),
    ("POST", "/api/messages", {"topic": "TEXT", "payload": "AAEC"}),
    ("POST", "/api/messages", {"topic": "q", "payload": "AAEC", "key": "TEXT", "metadata": {"TEXT": "TEXT"}}),
    ("GET", "/api/messages?topic=TEXT&status=TEXT&limit=TEXT", None),
    ("POST", "/api/messages/dequeue", {"topic": "TEXT", "consumer_group": "TEXT"}),
    ("POST", "/api/messages/TEXT/nack", {"error": "TEXT", "receipt": "TEXT"}),
    ("PUT", "/api/topic-configs/TEXT", {"max_retries": 1}),
)


@pytest.fixture(scope="module", params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    return new_database(request.param, tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def broker(database: Database) -> Iterator[Broker]:
    with rowq.connect(database.url, maintenance=False) as broker:
        broker.send(BYSTANDER, "salary-of-ada", key="k")
        yield broker


@pytest.fixture(scope="module")
def server(database: Database, broker: Broker) -> Iterator[Server]:
    loop = LoopThread()
    try:
        server = Server(loop, database.url, compat=apis())
        yield server
        server.stop()
    finally:
        loop.stop()


@pytest.fixture
def unharmed(database: Database, broker: Broker) -> Iterator[None]:
    """Whatever a test says: nobody's message is touched, and what the tables say of each other is true."""
    before = broker.browse(BYSTANDER), broker.policy(BYSTANDER), broker.stats(BYSTANDER)
    yield
    assert (broker.browse(BYSTANDER), broker.policy(BYSTANDER), broker.stats(BYSTANDER)) == before
    assert faults_of(database.url) == {}


def test_every_text_of_a_message_comes_back_as_it_was(broker: Broker, unharmed: None) -> None:
    for text in ALL:
        id = broker.send(
            "texts", {text: [text]}, key=f"{text}key", group=f"{text}group", headers={f"x{text}": text}, keys_if_undelivered=[[text, "a"]]
        )
        (found,) = broker.receive("texts", consumer=text)
        assert (found.payload, found.key, found.group, found.headers) == ({text: [text]}, f"{text}key", f"{text}group", {f"x{text}": text})
        assert [look.id for look in broker.all_consumers() if look.queue == "texts"] == [text]
        broker.reject(found, reason=text)
        dead = broker.get(id)
        assert (dead.payload, dead.error, dead.reason) == ({text: [text]}, text, "rejected")
        assert [entry.key for entry in broker.keys([text])] == [[text, "a"]]
    assert broker.stats("texts").dead == len(ALL)


def test_a_filter_finds_what_it_names_and_no_more(broker: Broker, unharmed: None) -> None:
    """Neither % nor _ stands for anything."""
    for text in SQL:
        broker.send("filters", f"<{text}>", key=text, group=text)
    for text in SQL:
        for state in ("ready", "dead"):
            named = broker.browse("filters", key=text, state=state), broker.browse("filters", group=text, state=state)
            assert [[message.key for message in found] for found in named] == ([[text], [text]] if state == "ready" else [[], []]), text
        found = {message.key for message in broker.browse("filters", text=f"<{text}>", limit=1_000)}
        assert found == ({text} if json.dumps(text, ensure_ascii=False) == f'"{text}"' else set()), "it is looked for in the JSON"
        for where in (Where(reason=text), Where(error=text), Where(fingerprint=text), Where(key=text), Where(group=text)):
            assert broker.redrive("filters", where=where) == 0
        assert broker.redrive("filters", ids=[text]) == 0
    assert broker.stats("filters").ready == len(SQL)


_NAMED: dict[str, Callable[[Broker, str], object]] = {
    "send": lambda broker, text: broker.send(text, 1),
    "receive": lambda broker, text: broker.receive(text),
    "browse": lambda broker, text: broker.browse(text),
    "configure": lambda broker, text: broker.configure(text, lease=1),
    "purge": lambda broker, text: broker.purge(text),
    "delete_queue": lambda broker, text: broker.delete_queue(text),
    "register": lambda broker, text: broker.register(text),
    "key": lambda broker, text: broker.create_key(text, scopes=["send"]),
    "pattern": lambda broker, text: broker.create_key("key", scopes=["send"], queues=[text]),
    "scope": lambda broker, text: broker.create_key("key", scopes=[text]),
    "state": lambda broker, text: broker.browse("q", state=text),
    "states": lambda broker, text: broker.purge("q", states=[text]),
    "cursor": lambda broker, text: broker.browse("q", after=text),
    "run_maintenance": lambda broker, text: broker.run_maintenance(text),
    "consumer": lambda broker, text: broker.beat("q", text),
    "stream": lambda broker, text: broker.revoke_stream(text),
    "id": lambda broker, text: broker.get(text),
}


@pytest.mark.parametrize("what", _NAMED)
def test_a_name_that_is_none_is_refused(broker: Broker, unharmed: None, what: str) -> None:
    for text in ALL:
        if text not in ("_", "--"):  # which are names, odd as they are
            with pytest.raises((rowq.InvalidArgument, rowq.NotFound, rowq.ConsumerGone)):
                _NAMED[what](broker, text)


@pytest.mark.parametrize(
    "text", ["'", '"', "x'; DROP SCHEMA public; --", 'x"; DROP SCHEMA public CASCADE; --', "a b", "pg-x", "ü", "a.b", ""]
)
def test_the_name_of_a_schema_is_a_plain_word(text: str, tmp_path: Path) -> None:
    """It stands in SQL as it is; so does the name of PEQ's schema, which is one of a queue."""
    url = new_database("postgresql", tmp_path).url
    separator = "&" if "?" in url else "?"
    with pytest.raises(rowq.InvalidArgument):
        rowq.connect(f"{url}{separator}schema={quote(text)}")
    with pytest.raises(rowq.InvalidArgument):
        rowq.connect(f"{url}{separator}durability={quote(text or 'x')}")


@pytest.mark.parametrize("name", ["it's", 'a"b', "a;b", "a%b", "a?b", "a#b", "--", "a\\b", "ATTACH 'x'"])
def test_a_file_may_be_called_anything(tmp_path: Path, name: str) -> None:
    with rowq.connect(f"sqlite:///{quote(str(tmp_path / name))}") as broker:
        broker.send("q", name)
        assert broker.receive("q")[0].payload == name
    assert (tmp_path / name).exists()


few_or_all = pytest.mark.parametrize(
    "texts",
    [pytest.param(FEW, id="few"), pytest.param(SQL, id="all", marks=pytest.mark.prove("a minute of requests; the few stand for it"))],
)


@few_or_all
@pytest.mark.parametrize("route", _ROUTES, ids=lambda route: route.operation)
def test_no_text_in_a_request_breaks_a_route(server: Server, unharmed: None, route: Route, texts: tuple[str, ...]) -> None:
    for target, body in _requests(route, texts):
        told = fetch(server, route.method, target, body)
        assert told.status < 500, (target, body, told)


@few_or_all
@pytest.mark.parametrize(("method", "path", "body"), _OF_APIS, ids=lambda value: str(value)[:50])
def test_no_text_in_a_request_breaks_an_api(
    server: Server, unharmed: None, method: str, path: str, body: Any, texts: tuple[str, ...]
) -> None:
    for text in texts:
        said = None if body is None else json.loads(json.dumps(body).replace("TEXT", json.dumps(text)[1:-1]))
        told = fetch(server, method, path.replace("TEXT", quote(text, safe="")), said)
        assert told.status < 500, (text, told)


def _requests(route: Route, texts: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Every place for a text, by itself: in the path, in the query, in the body. The rest is as in the examples."""
    usual = route.path.format(**{**PATHS, "queue": "hostile"})
    example = {**next(iter(BODIES.get(route.operation, {"": {}}).values())), **({"wait_ms": 0} if route.operation == "receive" else {})}
    for text in texts:
        for place in PATHS:
            if f"{{{place}}}" in route.path:
                yield route.path.format(**{**PATHS, "queue": "hostile", place: quote(text, safe="")}), example or None
        for field in _texts(route.query):
            yield f"{usual}?{urlencode({field: text})}", example or None
        for field in _texts(route.body):
            for value in (text, [text], {text: text}, [[text]]):
                yield usual, {**example, field: value}


def _texts(kind: type | None) -> list[str]:
    return [] if kind is None else [field.encode_name for field in msgspec.structs.fields(kind) if "str" in str(field.type)]
