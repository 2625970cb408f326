"""Dead letters for the pages to show."""

from __future__ import annotations

from typing import Any

from rowq.engine.arguments import to_reject
from rowq.model.message import SendOptions
from tests.support.server import Server

_AT_ONCE = 1_000


def kill(server: Server, queue: str, *payloads: Any, error: str | None = "no such address", **options: Any) -> list[str]:
    """Messages that were rejected, with that error; the queue has to be empty before."""
    drive = server.engine.driver.drive
    ids: list[str] = []
    for start in range(0, len(payloads), _AT_ONCE):
        piece = payloads[start : start + _AT_ONCE]
        sent: list[str] = drive(server.engine.verbs.send_many(queue, piece, SendOptions(**options)))  # type: ignore[typeddict-item]
        ids += sent
        taken = drive(server.engine.verbs.receive(queue, len(piece), 0, 60, None, None, None))
        assert len(taken) == len(piece)
        drive(server.engine.verbs.settle_many(taken, to_reject(error)))
    return ids


def count(server: Server, queue: str, state: str) -> int:
    return int(getattr(server.engine.insights.stats(queue), state))
