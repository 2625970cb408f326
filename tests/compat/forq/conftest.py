"""A server with Forq's API on every database, a clock that only the test moves, and the calls of a client of Forq."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowq import Broker, ManualClock
from rowq.server.compat.forq.api import Options
from rowq.server.compat.registry import open_apis
from tests.server.support import Answer, ask
from tests.support.blocking import LoopThread
from tests.support.database import KINDS, new_database
from tests.support.server import Server


class Forq:
    """What a client of Forq asks, and the same queues as an operator of ours sees them."""

    def __init__(self, server: Server, clock: ManualClock) -> None:
        self.server = server
        self.clock = clock
        self.broker = Broker(server.engine)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(self.server, method, f"/api/v1/queues/{path}", body, headers=given)

    def produce(self, content: str, queue: str = "emails", **more: Any) -> Answer:
        return self.ask("POST", f"{queue}/messages", {"content": content, **more})

    def consume(self, queue: str = "emails") -> Any:
        """The message; None where there is none."""
        answer = self.ask("GET", f"{queue}/messages")
        assert answer.status in (200, 204), answer
        return answer.json if answer.status == 200 else None

    def ack(self, message: Any, queue: str = "emails", **headers: str) -> Answer:
        return self.ask("POST", f"{queue}/messages/{message['id']}/ack", **headers)

    def nack(self, message: Any, queue: str = "emails", **headers: str) -> Answer:
        return self.ask("POST", f"{queue}/messages/{message['id']}/nack", **headers)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def forq(kind: str, tmp_path: Path, loop: LoopThread) -> Iterator[Forq]:
    """Its polls wait for nobody: a clock that stands still brings no message."""
    clock = ManualClock()
    api = open_apis(("forq",), {"forq": Options(poll=0)})
    server = Server(loop, new_database(kind, tmp_path).url, clock=clock, maintenance=False, compat=api)
    try:
        yield Forq(server, clock)
    finally:
        server.stop()
