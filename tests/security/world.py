"""A server with every compatible API, one queue full of secrets, and keys of every kind to try on every way in."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from rowq.model.access import SCOPES
from rowq.server.api.examples import BODIES, PATHS, QUERIES
from rowq.server.api.routes import ROUTES
from rowq.server.auth.authentication import Authenticator
from rowq.server.compat.registry import NAMES, open_apis, to_options
from rowq.spark.ledger import Ledger
from tests.security import expected
from tests.security.expected import Expected
from tests.server.support import ADMIN, PATIENCE, ask, key, serving
from tests.support.server import Server

QUEUE, PAYLOAD, ERROR, STREAM = "payroll", "salary-of-ada", "bank-is-down", "payroll-to-lake"
TOLD = (QUEUE, PAYLOAD, ERROR, STREAM, "key-of-ada")
"""What a key for other queues must never read."""
_OF_APIS = {"forq": {"poll": 0}, "keyval": {"queue": QUEUE}, "queueti": {}}
_BODIES: dict[str, Any] = {
    "/enqueue": {"value": 1},
    "/messages/dequeue": {"topic": QUEUE},
    "POST /api/messages/{id}": {},
    "POST /api/messages": {"topic": QUEUE, "payload": "AAEC"},
    "/topic-configs/": {"max_retries": 1},
    "/api/v1/queues": {"content": "x"},
    "/api/admin": {},
}
"""Of the compatible APIs, by what stands in their paths."""
_OPERATION = {f"{route.method} {route.path}": route.operation for route in ROUTES}
_KEYS = (
    *(key(scope, scope) for scope in SCOPES),
    *(key(f"{scope}-of-it", scope, queues=(f"{QUEUE[:4]}*",)) for scope in SCOPES),
    key("elsewhere", *SCOPES, queues=("lobby.*", f"{QUEUE}x", QUEUE[:-1])),
)


class Told(NamedTuple):
    status: int
    text: str

    @property
    def is_refused(self) -> bool:
        return self.status in (401, 403)


def apis() -> Any:
    return open_apis(NAMES, {name: to_options(name, said, "the test") for name, said in _OF_APIS.items()})


class World:
    """`receipt` is of a message that is being worked on."""

    def __init__(self, server: Server) -> None:
        self.server = server
        server.service.authenticator = Authenticator(
            _KEYS, server.engine.insights.known_keys, monotonic=count(0, 60.0).__next__
        )  # guesses far apart
        self.revoked = str(self._do("POST", "/v1/api-keys", {"name": "gone", "scopes": list(SCOPES)}, 201)["secret"])
        self._do("DELETE", "/v1/api-keys/gone", None, 204)
        self._do("POST", "/v1/api-keys", {"name": PATHS["name"], "scopes": ["receive"]}, 201)
        send = f"/v1/queues/{QUEUE}/messages"
        self._do("POST", f"/v1/queues/{QUEUE}-2/messages", {"payload": 42, "id": "order-42"}, 201)
        ledger = Ledger(server.engine)
        ledger.take(STREAM, ledger.claim(STREAM, [f"{QUEUE}-2"]).epoch, 0, 10)
        message = {"payload": PAYLOAD, "key": "key-of-ada"}
        self.dead = str(self._do("POST", send, {**message, "keys_if_undelivered": [["customers", 42]]}, 201)["id"])
        self._do("POST", "/v1/reject", {"receipts": [self._receive()], "reason": ERROR}, 200)
        self.leased = str(self._do("POST", send, message, 201)["id"])
        self.receipt = self._receive()
        self.ready = str(self._do("POST", send, message, 201)["id"])
        self._do("POST", f"/v1/queues/{QUEUE}/consumers", BODIES["register_consumer"]["usual"], 201)
        self._do("PUT", f"/v1/queues/{QUEUE}", {"max_depth": 12_345}, 200)

    def try_with(self, way: str, secret: str | None) -> Told:
        """As somebody who knows everything but a key."""
        method, path = way.split(" ")
        operation = _OPERATION.get(way, "")
        fields = {**PATHS, "queue": QUEUE, "topic": QUEUE, "id": self._id(way), "stream": STREAM}
        query = "&".join(f"{name}={value}" for name, value in QUERIES.get(operation, {}).items() if value != "emails")
        target = path.format(**fields) + (f"?{query}" if query else "?prefix=customers" if path.endswith("/keys") else "")
        return fetch(self.server, method, target, self._body(way, operation), secret)

    def state(self) -> list[Any]:
        insights = self.server.engine.insights
        messages = [insights.get(id) for id in (self.dead, self.leased, self.ready)]
        return [insights.queues(), insights.all_settings(), insights.known_keys(), insights.actions(None, 100), messages]

    def _id(self, way: str) -> str:
        """Of the message that the way is about: a dead letter, one that is being worked on, or one that waits."""
        if "/dlq/" in way or "requeue" in way:
            return self.dead
        return self.leased if way.endswith("ack") else self.ready

    def _body(self, way: str, operation: str) -> Any:
        if operation in BODIES:
            body = dict(BODIES[operation][next(iter(BODIES[operation]))])
            return {**body, "receipts": [self.receipt]} if "receipts" in body else body
        if way.startswith("GET") or operation:
            return None
        return next((body for part, body in _BODIES.items() if part in way), {"id": self.leased})

    def _receive(self) -> str:
        found = self._do("POST", f"/v1/queues/{QUEUE}/deliveries", {"lease_ms": 3_600_000}, 200)
        return str(found["deliveries"][0]["receipt"])

    def _do(self, method: str, path: str, body: Any, status: int) -> Any:
        answer = ask(self.server, method, path, body, secret=ADMIN)
        assert answer.status == status, answer
        return answer.json if answer.body else None


@contextmanager
def world(folder: Path) -> Iterator[World]:
    with serving(folder, key("admin", "admin"), compat=apis()) as server:
        yield World(server)


def ways() -> dict[str, Expected]:
    """Every way of the API and of the compatible APIs, as `GET /path`: those that are served. One without an expectation is an error."""
    served = [f"{route.method} {route.path}" for route in ROUTES]
    served += [f"{way.method} {way.path}" for api in apis() for way in api.ways()]
    return matched(served, {**expected.API, **expected.COMPAT})


def matched(served: list[str], table: dict[str, Expected]) -> dict[str, Expected]:
    """The table, if it has exactly what is served."""
    unexpected, missing = set(served) - set(table), set(table) - set(served)
    assert not unexpected, f"say in tests/security/expected.py who may go there: {sorted(unexpected)}"
    assert not missing, f"tests/security/expected.py has what is not served: {sorted(missing)}"
    return table


def fetch(server: Server, method: str, target: str, body: Any = None, secret: str | None = None) -> Told:
    """What was answered; of an event stream, that it began."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    try:
        headers = {"content-type": "application/json", **({"x-api-key": secret} if secret else {})}
        connection.request(method, target, None if body is None else json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        is_stream = (answer.getheader("content-type") or "").startswith("text/event-stream")
        return Told(answer.status, "" if is_stream else answer.read().decode())
    finally:
        connection.close()
