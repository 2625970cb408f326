"""No room left: nothing is half written, nothing is lost, and all goes on once there is room again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from rowq import Broker, State, StoreFull
from tests.store.driver import Spy, ask
from tests.support.tables import faults_of

_UNLIMITED = 1 << 30


@pytest.fixture
def fill_up(spy: Spy, path: Path) -> Callable[..., None]:
    """Leaves room for a few more pages, or without an argument takes the limit away."""

    def limit(pages: int = _UNLIMITED) -> None:
        with closing(sqlite3.connect(path)) as connection:
            used: int = ask(connection, "PRAGMA page_count")

        def set_limit(connection: sqlite3.Connection, statement: str) -> None:
            if statement == "BEGIN IMMEDIATE":
                ask(connection, f"PRAGMA max_page_count = {min(used + pages, _UNLIMITED)}")

        spy.before = set_limit

    return limit


FillUp = Callable[..., None]


def test_a_send_without_room_is_refused_whole(fill_up: FillUp, broker: Broker, path: Path) -> None:
    broker.send("q", "before")
    fill_up(5)
    with pytest.raises(StoreFull, match="nothing was written: free some space"):
        broker.send_many("q", ["x" * 1_000 for _ in range(500)])
    assert broker.stats("q").ready == 1
    fill_up()
    broker.send_many("q", ["x" * 1_000 for _ in range(500)])
    assert broker.stats("q").ready == 501
    broker.close()
    assert faults_of(path) == {}


def test_what_was_answered_is_there_and_what_was_refused_is_not(fill_up: FillUp, broker: Broker, path: Path) -> None:
    fill_up(20)
    answered: list[str] = []

    def send_on_and_on() -> None:
        while True:
            answered.append(broker.send("q", "x" * 500, key=f"k{len(answered)}", group="g", ttl=60))

    with pytest.raises(StoreFull):
        send_on_and_on()
    fill_up()
    assert [message.id for message in broker.walk("q", states=list(State))] == answered
    broker.close()
    assert faults_of(path) == {}


def test_a_receive_without_room_leaves_the_messages_where_they_are(fill_up: FillUp, broker: Broker, path: Path) -> None:
    broker.send_many("q", range(1_000))
    fill_up(0)
    with pytest.raises(StoreFull):
        [broker.receive("q", max=100, consumer="c" * 500) for _ in range(10)]
    stats = broker.stats("q")
    assert stats.ready + stats.leased == 1_000
    assert stats.ready > 0
    fill_up()
    assert len(broker.receive("q", max=1_000)) == stats.ready
    broker.close()
    assert faults_of(path) == {}


def test_a_queue_that_could_not_be_made_is_made_later(fill_up: FillUp, broker: Broker) -> None:
    """What was remembered of it belongs to a transaction that was undone."""
    fill_up(0)
    with pytest.raises(StoreFull):
        broker.send("new", "x" * 100_000)
    fill_up()
    broker.send("new", "x")
    assert [stats.queue for stats in broker.queues()] == ["new"]
