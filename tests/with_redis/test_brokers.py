"""Brokers that tell each other by Redis: consumers are woken, settings obeyed at once, and without Redis everything goes on, slower."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from rowq import Broker, InvalidArgument
from tests.support.background import Background
from tests.support.database import Database
from tests.support.patience import eventually
from tests.support.servers import RedisServer, own_redis

SOON = 0.5
"""Seconds: well below the second after which everybody looks in any case."""


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with own_redis(tmp_path) as server:
        yield server


@pytest.fixture
def brokers(database: Database, redis: RedisServer) -> Iterator[tuple[Broker, Broker]]:
    """Two of them, as in two processes."""
    with rowq.connect(database.url, redis=redis.url()) as one, rowq.connect(database.url, redis=redis.url()) as other:
        yield one, other


def waiting(broker: Broker, seconds: float = 20) -> Background[list[rowq.Delivery]]:
    consumer = Background(lambda: broker.receive("q", wait=seconds))
    eventually(lambda: broker._engine.waiting == 1)
    return consumer


def test_a_send_wakes_a_consumer_of_another_process(brokers: tuple[Broker, Broker]) -> None:
    one, other = brokers
    one.send("q", "warm up")
    other.ack(other.receive("q", wait=5)[0])
    eventually(lambda: other._engine._herald is not None and other._engine._herald.is_heard())
    delays = []
    for number in range(5):
        consumer = waiting(other)
        sent = time.monotonic()
        one.send("q", number)
        [delivery] = consumer.result()
        delays.append(time.monotonic() - sent)
        assert delivery.payload == number
        other.ack(delivery)
    assert sorted(delays)[2] < SOON


def test_a_pause_is_obeyed_at_once_by_another_process(brokers: tuple[Broker, Broker]) -> None:
    one, other = brokers
    one.send_many("q", range(100))
    other.ack(other.receive("q")[0])
    one.pause("q")
    eventually(lambda: other.receive("q") == [], within=SOON)
    one.resume("q")
    eventually(lambda: other.receive("q") != [], within=SOON)


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
    consumer = waiting(other)
    started = time.monotonic()
    one.send("q", "while it is away")
    assert time.monotonic() - started < 5
    assert [delivery.payload for delivery in consumer.result()] == ["while it is away"]
    one.configure("q", lease=9)
    one.send("q", "more")
    eventually(lambda: other.receive("q", wait=1), within=10)
    redis.start()
    eventually(lambda: other._engine._herald is not None and other._engine._herald.is_heard(), within=20)
    assert one.send("q", "after")


def test_a_redis_that_was_never_there_stops_nobody(database: Database) -> None:
    with rowq.connect(database.url, redis="redis://127.0.0.1:1/0") as broker:
        broker.send("q", "x")
        assert [delivery.payload for delivery in broker.receive("q", wait=1)] == ["x"]


@pytest.mark.parametrize("bad", ["http://localhost", "localhost:6379", "", "redis"])
def test_what_is_no_url_of_redis_is_refused(tmp_path: Path, bad: str) -> None:
    with pytest.raises(InvalidArgument):
        rowq.connect(f"sqlite:///{tmp_path}/jobs.db", redis=bad)
