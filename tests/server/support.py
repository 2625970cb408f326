"""A server to ask over real sockets, with and without keys, and the plainest of clients: it sends what it is told, sense or not."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from rowq.model.access import ApiKey, KnownKey, Scope, digest_of
from rowq.server.api.examples import BODIES
from rowq.server.auth.authentication import Authenticator
from rowq.server.metrics import Metrics
from rowq.server.service import Limits
from rowq.spark.ledger import Ledger
from rowq.store.meter import Meter
from tests.support.blocking import LoopThread
from tests.support.server import Server

PATIENCE = 20.0
ADMIN = "rowq_admin"


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> tuple[int, str]:
        """(status, code) of a refusal, which always has a sentence too."""
        told = self.json
        assert set(told) == {"code", "error"} and told["error"].strip(), told
        assert self.headers["content-type"] == "application/json"
        return self.status, told["code"]


def key(name: str, *scopes: Scope, queues: tuple[str, ...] = ("*",)) -> KnownKey:
    """A key whose secret is its name with `rowq_` in front."""
    return ApiKey(name=name, scopes=scopes, queues=queues), digest_of(f"rowq_{name}")


@contextmanager
def serving(folder: Path, *keys: KnownKey, url: str | None = None, limits: Limits | None = None, **options: Any) -> Iterator[Server]:
    """Without keys it is open to this machine, and stays so until somebody makes one."""
    loop = _Uvloop()
    try:
        server = Server(loop, url or f"sqlite:///{folder}/queue.db", limits=limits, **options)
        try:
            server.service.authenticator = Authenticator(keys, server.engine.insights.known_keys)
            meter = Meter()
            server.engine.attach(meter)
            server.service.metrics = Metrics(server.engine, meter)
            yield server
        finally:
            server.stop()
    finally:
        loop.stop()


class _Uvloop(LoopThread):
    """The event loop that a server has where it is in earnest."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="event-loop", daemon=True)
        self._thread.start()


def ask(
    server: Server, method: str, path: str, body: Any = None, *, secret: str | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """`body` is bytes as they are, or a value to be written as JSON."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    lines = {
        **({} if data is None else {"content-type": "application/json"}),
        **({"x-api-key": secret} if secret else {}),
        **(headers or {}),
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    try:
        connection.request(method, path, data, lines)
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


def ask_raw(server: Server, data: bytes) -> Answer:
    """Bytes in, one answer out; for what no library would send."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(data)
        return read_answer(connection)


def read_answer(connection: socket.socket) -> Answer:
    with closing(http.client.HTTPResponse(connection)) as response:  # one that is not read to its end would keep the socket open
        response.begin()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


def request(method: str, target: str, *lines: str, body: bytes = b"") -> bytes:
    """A request as bytes; `Content-Length` only if it is among the lines."""
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode("latin-1") + body


def filled(server: Server) -> str:
    """Messages in every state in `emails`, one of them the `welcome-42` of the examples; gives the receipt of the leased one."""

    def send(**message: Any) -> None:
        assert ask(server, "POST", "/v1/queues/emails/messages", message, secret=ADMIN).status == 201

    def receive() -> str:
        found = ask(server, "POST", "/v1/queues/emails/deliveries", {"lease_ms": 3_600_000, "consumer": "worker"}, secret=ADMIN)
        return str(found.json["deliveries"][0]["receipt"])

    assert ask(server, "PUT", "/v1/queues/emails", {"keep": "body"}, secret=ADMIN).status == 200
    send(payload={"to": "ada"}, keys_if_undelivered=[["customers", 42]], headers={"trace": "1"})
    assert ask(server, "POST", "/v1/reject", {"receipts": [receive()], "reason": "no such address"}, secret=ADMIN).status == 200
    send(payload_base64="AAEC", max_attempts=3, backoff_ms=[1000, 2000])
    assert ask(server, "POST", "/v1/ack", {"receipts": [receive()]}, secret=ADMIN).status == 200
    send(payload="leased", group="a", deadline_ms=3_600_000)
    receipt = receive()
    send(payload="blocked", group="a")
    send(payload="scheduled", delay_ms=3_600_000, backoff_ms={"kind": "linear", "step_ms": 5})
    send(payload={"to": "ada@example.com"}, id="welcome-42", key="welcome", ttl_ms=3_600_000)
    assert ask(server, "POST", "/v1/api-keys", {"name": "worker", "scopes": ["receive"]}, secret=ADMIN).status == 201
    assert ask(server, "POST", "/v1/queues/emails/consumers", BODIES["register_consumer"]["usual"], secret=ADMIN).status == 201
    return receipt


def streaming(server: Server) -> None:
    """The stream of the examples: it holds one message, `order-42`."""
    assert ask(server, "POST", "/v1/queues/orders/messages", {"payload": 42, "id": "order-42"}, secret=ADMIN).status == 201
    ledger = Ledger(server.engine)
    held = ledger.claim("orders-to-lake", ["orders"])
    assert ledger.take("orders-to-lake", held.epoch, 0, 10) == 1


class Stream:
    """An event stream that is read as it comes."""

    def __init__(self, server: Server, path: str, secret: str | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        try:
            self._connection.request("GET", path, headers={"x-api-key": secret} if secret else {})
            self.response = self._connection.getresponse()
        except BaseException:
            self._connection.close()
            raise

    def next(self, *, skip: str = "ping") -> tuple[str, Any]:
        """(event, data) of the next event of another name than `skip`."""
        while True:
            fields: dict[str, str] = {}
            while line := self.response.readline().decode().rstrip("\n"):
                name, _, value = line.partition(":")
                fields[name] = value.strip()
            if "event" in fields and fields["event"] != skip:
                return fields["event"], json.loads(fields["data"])

    def close(self) -> None:
        self.response.close()
        self._connection.close()
