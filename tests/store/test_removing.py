"""Messages away, on every database: dead letters that are named, or match, and a whole queue; others stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowq.connect import open_engine
from rowq.engine.arguments import PIECE
from rowq.engine.engine import Engine
from rowq.model.lifecycle import Ack, Reject
from rowq.model.message import Delivery, Where
from tests.support.database import KINDS, new_database


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(new_database(request.param, tmp_path).url)
    yield engine
    engine.close()


def bury(engine: Engine, queue: str, error: str, count: int = 1) -> list[str]:
    drive, verbs = engine.driver.drive, engine.verbs
    ids: list[str] = drive(verbs.send_many(queue, list(range(count)), {}))
    taken: list[Delivery] = drive(verbs.receive(queue, count, 0, None, None, None, None))
    drive(verbs.settle_many(taken, Reject(error)))
    return ids


def remove(engine: Engine, ids: list[str] | None, where: Where | None = None, limit: int | None = None) -> tuple[int, list[int]]:
    told: list[int] = []
    return engine.driver.drive(engine.verbs.delete_dead("q", ids, where, limit, None, told.append)), told


def left(engine: Engine, queue: str = "q") -> list[str]:
    return [letter.id for letter in engine.insights.browse(f"{queue}.dlq", limit=1000)]


def test_those_named_go_and_no_others(engine: Engine) -> None:
    first, second, third = bury(engine, "q", "x", 3)
    (other,) = bury(engine, "other", "x")
    alive = engine.driver.drive(engine.verbs.send("q", 1, {}))
    assert remove(engine, [first, third, first, other, alive, "nobody"]) == (2, [2])
    assert (left(engine), left(engine, "other")) == ([second], [other])
    assert engine.insights.stats("q").ready == 1
    assert [event.event for event in engine.insights.audit(first)][-1] == "deleted"


def test_those_of_a_failure_go(engine: Engine) -> None:
    for seconds in range(3):
        bury(engine, "q", f"timeout after {seconds} s")
    (other,) = bury(engine, "q", "no such user")
    where = Where(reason="rejected", fingerprint="timeout after <number> s")
    assert remove(engine, None, where, limit=1)[0] == 1
    assert remove(engine, None, where)[0] == 2
    assert left(engine) == [other]


def test_one_that_somebody_has_received_stays(engine: Engine) -> None:
    ids = bury(engine, "q", "x", 2)
    (delivery,) = engine.driver.drive(engine.verbs.receive("q.dlq", 1, 0, None, None, None, None))
    assert remove(engine, ids)[0] == 1
    assert engine.insights.get(delivery.id).state == "leased"


def test_a_purge_leaves_what_was_received_or_sent_since_it_began(engine: Engine) -> None:
    """Which messages are meant is fixed at its beginning, and each is taken only where it still waits."""
    drive, verbs = engine.driver.drive, engine.verbs
    drive(verbs.send_many("q", list(range(PIECE + 10)), {}))
    taken: list[Delivery] = []

    def meddle(count: int) -> None:
        if not taken:
            received: list[Delivery] = drive(verbs.receive("q", 1, 0, None, None, None, None))
            taken.extend(received)
            drive(verbs.send("q", "later", {}))

    assert drive(verbs.purge("q", None, meddle)) == PIECE + 9
    drive(verbs.settle(taken[0], Ack()))
    assert [message.payload for message in engine.insights.browse("q", limit=1000)] == ["later"]
