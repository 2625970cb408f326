"""Requests that arrive together share a transaction; an answer that may be asked for again is kept for an hour."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import rowq
from rowq import ManualClock
from rowq.engine.group_commit import GroupCommit
from tests.server.support import PATIENCE, ask, serving
from tests.support.background import Background
from tests.support.patience import eventually

CROWD = 64
"""So many connections does a client open, and so many requests can be on their way at once."""


def test_requests_that_arrive_together_are_written_together(tmp_path: Path) -> None:
    """They arrive while the writer is busy, and none is written before all are there."""

    async def crowd(url: str) -> list[str]:
        async with rowq.connect_async(url) as broker:
            return await asyncio.gather(*(broker.send("q", number) for number in range(CROWD)))

    with serving(tmp_path, maintenance=False) as server:
        writer = server.engine._group_commit
        assert isinstance(writer, GroupCommit)
        writer.hold_still()
        try:
            sending = Background(lambda: asyncio.run(crowd(server.url)))
            eventually(lambda: writer.burden() > CROWD)  # the writer's turn counts as one
        finally:
            writer.go_on()
        assert len(set(sending.result(PATIENCE))) == CROWD
        assert server.engine.meter is not None
        assert sum(server.engine.meter.read_store().calls.counts) <= 2
        assert ask(server, "GET", "/v1/queues/q/stats").json["ready"] == CROWD


@pytest.mark.parametrize(("hours", "is_known"), [(0.9, True), (1.1, False)])
def test_the_answer_to_a_request_is_kept_for_an_hour(tmp_path: Path, hours: float, is_known: bool) -> None:
    clock = ManualClock()
    with serving(tmp_path, clock=clock, maintenance=False) as server:

        def send() -> str:
            answer = ask(server, "POST", "/v1/queues/q/messages", {"payload": 1}, headers={"idempotency-key": "k"})
            id: str = answer.json["id"]
            return id

        first = send()
        clock.advance(hours * 3_600)
        assert ask(server, "POST", "/v1/sweep").status == 200
        assert (send() == first) is is_known
