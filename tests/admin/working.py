"""What programs do to queues while somebody looks at them: through the engine that the pages are served from."""

from __future__ import annotations

from typing import Any, cast

from rowq.model.lifecycle import Settlement
from rowq.model.message import Delivery
from tests.support.server import Server

NASTY = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\u202e\x1b[31m🎉"
"""What somebody may send, be called, or fail with."""


def send(server: Server, queue: str, payload: Any, **options: Any) -> str:
    return str(server.engine.driver.drive(server.engine.verbs.send(queue, payload, cast("Any", options))))


def send_many(server: Server, queue: str, payloads: list[Any], **options: Any) -> list[str]:
    return server.engine.driver.drive(server.engine.verbs.send_many(queue, payloads, cast("Any", options)))


def receive(server: Server, queue: str, max: int = 1, *, consumer: str | None = None, wait: float = 0) -> list[Delivery]:
    return server.engine.driver.drive(server.engine.verbs.receive(queue, max, wait, 600, consumer, None, None))


def settle(server: Server, delivery: Delivery, settlement: Settlement) -> None:
    server.engine.driver.drive(server.engine.verbs.settle(delivery, settlement))


def configure(server: Server, queue: str, **settings: Any) -> None:
    server.engine.driver.drive(server.engine.verbs.configure(queue, settings))
