"""Brokers that tell each other by Redis: consumers are woken, settings obeyed at once, and without Redis everything goes on, slower."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rowq
from rowq import Broker, InvalidArgument
from rowq.engine import waiting
from rowq.store.server.dialect import ServerDialect
from rowq.store.sqlite.dialect import Sqlite
from tests.redis.conftest import HOUR, WITHIN
from tests.support.background import Background
from tests.support.database import Database
from tests.support.patience import eventually
from tests.support.servers import RedisServer, own_redis


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with own_redis(tmp_path) as server:
        yield server


@pytest.fixture
def brokers(database: Database, redis: RedisServer) -> Iterator[tuple[Broker, Broker]]:
    """Two of them, as in two processes."""
    with rowq.connect(database.url, redis=redis.url()) as one, rowq.connect(database.url, redis=redis.url()) as other:
        yield one, other


def consuming(broker: Broker) -> Background[list[rowq.Delivery]]:
    consumer = Background(lambda: broker.receive("q", wait=60))
    eventually(lambda: broker._engine.waiting == 1)
    return consumer


def is_heard(broker: Broker) -> bool:
    return broker._engine._notifier is not None and broker._engine._notifier.is_heard()


def test_a_send_wakes_a_consumer_of_another_process(brokers: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the hint and nothing else: while Redis is heard no consumer polls, and the look once a second is put off for an hour.

    Only the first consumer may also be woken because Redis has just come to be heard.
    """
    monkeypatch.setattr(waiting, "SAFETY", HOUR)
    one, other = brokers
    eventually(lambda: is_heard(other))
    for number in range(3):
        consumer = consuming(other)
        one.send("q", number)
        [delivery] = consumer.result(WITHIN)
        assert delivery.payload == number
        other.ack(delivery)


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker has read of settings it believes for an hour, unless a hint says that they have changed."""
    for dialect in (Sqlite, ServerDialect):
        monkeypatch.setattr(dialect, "settings_max_age_ms", int(HOUR * 1000))


def test_a_pause_is_obeyed_at_once_by_another_process(trusting: None, brokers: tuple[Broker, Broker]) -> None:
    one, other = brokers
    eventually(lambda: is_heard(other))
    one.send_many("q", range(3))
    other.ack(other.receive("q")[0])

    def hears_of(change: Callable[[str], None]) -> None:
        before = other._engine.store.distrusted
        change("q")
        eventually(lambda: other._engine.store.distrusted > before)

    hears_of(one.pause)
    assert other.receive("q") == []
    hears_of(one.resume)
    assert [delivery.payload for delivery in other.receive("q")] == [1]


def test_settings_are_found_in_redis_and_never_out_of_date(brokers: tuple[Broker, Broker]) -> None:
    one, other = brokers
    for lease in (5, 6, 7):
        one.configure("q", lease=lease)
        one.send("q", lease)
        eventually(lambda lease=lease: other.policy("q").lease_ms == lease * 1000)  # type: ignore[misc]
        taken = eventually(lambda: other.receive("q"))
        assert taken


def test_without_redis_everything_goes_on(brokers: tuple[Broker, Broker], redis: RedisServer) -> None:
    one, other = brokers
    one.send("q", "before")
    other.ack(other.receive("q", wait=5)[0])
    redis.kill()
    consumer = consuming(other)
    one.send("q", "while it is away")
    assert [delivery.payload for delivery in consumer.result(WITHIN)] == ["while it is away"]
    one.configure("q", lease=9)
    one.send("q", "more")
    eventually(lambda: other.receive("q", wait=1))
    redis.start()
    eventually(lambda: is_heard(other))
    assert one.send("q", "after")


def test_a_redis_that_was_never_there_stops_nobody(database: Database) -> None:
    with rowq.connect(database.url, redis="redis://127.0.0.1:1/0") as broker:
        broker.send("q", "x")
        assert [delivery.payload for delivery in broker.receive("q", wait=1)] == ["x"]


@pytest.mark.parametrize("bad", ["http://localhost", "localhost:6379", "", "redis"])
def test_what_is_no_url_of_redis_is_refused(tmp_path: Path, bad: str) -> None:
    with pytest.raises(InvalidArgument):
        rowq.connect(f"sqlite:///{tmp_path}/jobs.db", redis=bad)
