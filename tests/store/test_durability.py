"""What is on disk before it is answered: the table of the documentation, asked of SQLite at each commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest

from rowq import Broker, ManualClock
from tests.store.conftest import Connect
from tests.store.driver import Spy, ask

NORMAL, FULL = 1, 2

VERBS: dict[str, tuple[Callable[[Broker], object], int]] = {
    "send": (lambda broker: broker.send("q", "x"), FULL),
    "send_many": (lambda broker: broker.send_many("q", ["x", "y"]), FULL),
    "receive": (lambda broker: broker.receive("q"), NORMAL),
    "receive at most once": (lambda broker: broker.receive("q", delivery="at_most_once"), FULL),
    "receive from an at-most-once queue": (lambda broker: broker.receive("strict"), FULL),
    "receive dead letters": (lambda broker: broker.receive("q.dlq"), NORMAL),
    "ack": (lambda broker: broker.ack(broker.receive("q")[0]), NORMAL),
    "nack": (lambda broker: broker.nack(broker.receive("q")[0]), NORMAL),
    "extend": (lambda broker: broker.extend(broker.receive("q")[0]), NORMAL),
    "reject": (lambda broker: broker.reject(broker.receive("q")[0]), FULL),
    "reschedule": (lambda broker: broker.reschedule(broker.receive("q")[0], 60), FULL),
    "redrive": (lambda broker: broker.redrive("q"), FULL),
    "delete": (lambda broker: broker.delete(broker.browse("q")[0].id), FULL),
    "purge": (lambda broker: broker.purge("q"), FULL),
    "configure": (lambda broker: broker.configure("q", lease=5), FULL),
    "pause": (lambda broker: broker.pause("q"), FULL),
    "maintain": (lambda broker: broker.maintain(), NORMAL),
}


@pytest.fixture
def commits(spy: Spy) -> list[int]:
    """How SQLite was told to commit, one entry for each commit."""
    seen: list[int] = []

    def note(connection: sqlite3.Connection, statement: str) -> None:
        if statement == "COMMIT":
            seen.append(ask(connection, "PRAGMA synchronous"))

    spy.before = note
    return seen


@pytest.fixture
def filled(commits: list[int], connect: Connect) -> Connect:
    """A broker with something for every verb to do, opened with the parameters given."""

    def fill(parameters: str = "") -> Broker:
        clock = ManualClock()
        broker = connect(parameters, clock=clock)
        broker.configure("strict", delivery="at_most_once")
        broker.send("strict", "x")
        broker.send_many("q", range(5))
        broker.reject(broker.receive("q")[0])
        broker.send("q", "due", delay=1)
        clock.advance(1)
        return broker

    return fill


@pytest.mark.parametrize("verb", VERBS)
def test_by_default_what_must_not_be_lost_is_on_disk(filled: Connect, verb: str, commits: list[int]) -> None:
    broker = filled()
    commits.clear()
    do, expected = VERBS[verb]
    do(broker)
    assert commits[-1] == expected


@pytest.mark.parametrize("verb", VERBS)
def test_full_is_on_disk_whatever_it_is(filled: Connect, verb: str, commits: list[int]) -> None:
    broker = filled("?durability=full")
    commits.clear()
    VERBS[verb][0](broker)
    assert set(commits) == {FULL}


@pytest.mark.parametrize("verb", VERBS)
def test_normal_leaves_it_to_the_next_checkpoint(filled: Connect, verb: str, commits: list[int]) -> None:
    broker = filled("?durability=normal")
    commits.clear()
    VERBS[verb][0](broker)
    assert set(commits) == {NORMAL}


def test_a_receive_that_must_be_on_disk_is_written_once(filled: Connect, commits: list[int]) -> None:
    broker = filled()
    commits.clear()
    assert len(broker.receive("strict")) == 1
    assert commits == [FULL]
    assert [event.event for event in broker.audit(broker.browse("strict", state="leased")[0].id)] == ["enqueued", "delivered"]
