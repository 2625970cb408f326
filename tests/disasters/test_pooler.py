"""Behind a pooler that gives each transaction another connection: everything works, and nothing is left behind on its connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest

import rowq
from tests.disasters.load import Load
from tests.rivals.process import Start
from tests.support.asking import ask
from tests.support.background import Background
from tests.support.life import bury, depths, take
from tests.support.patience import eventually
from tests.support.servers import PostgresqlServer, own_pgbouncer
from tests.support.tables import faults_of

_LEFT_BEHIND = """
SELECT name, setting FROM pg_settings WHERE source = 'session' AND name IN ('lock_timeout', 'jit', 'enable_seqscan', 'plan_cache_mode')
"""


@pytest.fixture
def pooled_url(postgresql: PostgresqlServer, url: str) -> Iterator[str]:
    with own_pgbouncer(postgresql, default_pool_size=5) as pooler:
        yield pooler.url(urlsplit(url).path[1:])


@pytest.fixture
def broker(pooled_url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(pooled_url) as broker:
        yield broker


def test_a_message_lives_its_whole_life(broker: rowq.Broker, url: str) -> None:
    broker.configure("q", keep="body", max_attempts=3)
    id = broker.send("q", {"n": 1}, key="k", group="g", priority=2, headers={"a": "b"})
    assert broker.send("q", {"n": 2}, key="k") == id
    broker.send_many("q", range(30), group="g")
    delivery = take(broker)
    assert delivery.payload == {"n": 2}
    broker.extend(delivery, 60)
    broker.nack(delivery, delay=0, reason="once more")
    delivery = take(broker, wait=30)
    broker.ack(delivery)
    assert broker.get(id).outcome == "acked"
    for _ in range(30):
        broker.ack(take(broker))
    broker.send("q", "late", delay=0.2)
    assert take(broker, wait=30).payload == "late"
    broker.purge("q", states=["leased"])
    dead = bury(broker, "dead")
    assert broker.redrive("q") == 1
    broker.reject(take(broker))
    broker.delete(dead)
    assert depths(broker) == {"finished": 31}
    assert len(list(broker.walk("q"))) == 31
    assert {event.event for event in broker.audit(id)} >= {"enqueued", "replaced", "nacked", "acked"}
    assert broker.maintain()
    assert faults_of(url) == {}


def test_a_consumer_that_waits_is_served_by_looking_often(broker: rowq.Broker, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look that every consumer takes once a second; of a message that another process sends, it is not told here."""
    monkeypatch.setattr("rowq.engine.waiting.SAFETY", float("inf"))
    with rowq.connect(url) as other:
        other.send("q", "first")
        broker.ack(take(broker))
        for number in range(3):
            waiting = Background(lambda: broker.receive("q", wait=30))
            eventually(broker._engine._room.count)
            other.send("q", number)
            (delivery,) = waiting.result(60)
            assert delivery.payload == number
            broker.ack(delivery)


def test_nothing_is_left_behind_for_others_who_use_the_pooler(broker: rowq.Broker, pooled_url: str) -> None:
    """Its connections go from client to client: a setting or a prepared statement that stays would be somebody else's trouble."""
    broker.send_many("q", range(50))
    for delivery in broker.receive("q", max=50):
        broker.ack(delivery)
    assert broker.receive("q", wait=0.3) == []
    strangers = [psycopg.connect(pooled_url) for _ in range(5)]  # each in a transaction, so that every connection of the pool is met
    try:
        for stranger in strangers:
            assert stranger.execute(_LEFT_BEHIND).fetchall() == []
            assert stranger.execute("SELECT name FROM pg_prepared_statements").fetchall() == []
    finally:
        for stranger in strangers:
            stranger.close()


def test_an_application_writes_in_its_own_transaction(broker: rowq.Broker, pooled_url: str, url: str) -> None:
    with closing(psycopg.connect(pooled_url, prepare_threshold=None)) as own:
        broker.within(own).send("q", "undone", key="k")
        own.rollback()
        broker.within(own).send("q", "done", key="k")
        own.commit()
    assert take(broker).payload == "done"
    assert faults_of(url) == {}


def test_a_load_of_several_processes_shares_few_connections(start: Start, pooled_url: str, url: str) -> None:
    load = Load(start, pooled_url)
    load.await_progress()
    load.finish()
    assert load.failures() == {}
    assert ask(url, "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'rowq'")[0][0] <= 5
    load.check(url)
