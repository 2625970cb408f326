"""A call that is alone in its transaction takes a shorter way: it must leave the very rows that the general way leaves."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq import Broker, LeaseLost, ManualClock, PayloadTooLarge, QueueFull
from rowq.engine.executor import Executor
from rowq.model.queue import Policy
from rowq.store.sqlite.dialect import Sqlite
from tests.store.conftest import Connect
from tests.support.background import Background
from tests.support.patience import eventually

Script = Callable[[Broker, ManualClock], object]


def one_of_each(broker: Broker, clock: ManualClock) -> object:
    told = [broker.send("q", {"n": number}, priority=number % 2) for number in range(4)]
    clock.advance(1)
    got = [broker.receive("q")[0] for _ in range(3)]
    clock.advance(1)
    broker.ack(got[1])
    broker.ack(got[0].receipt)
    return told, [(each.id, each.payload, each.attempt, each.lease_until) for each in got], broker.receive("empty")


def with_a_lease_of_its_own(broker: Broker, clock: ManualClock) -> object:
    broker.send("q", b"bytes")
    taken = broker.receive("q", lease=5, delivery="at_least_once")[0]
    clock.advance(6)
    again = broker.receive("q")[0]
    with pytest.raises(LeaseLost):
        broker.ack(taken)
    broker.ack(again)
    with pytest.raises(LeaseLost):
        broker.ack(again)
    return taken.lease_until, again.attempt


def with_a_consumer(broker: Broker, clock: ManualClock) -> object:
    broker.send("q", "x")
    broker.ack(broker.receive("q", consumer="worker 1")[0])
    return clock.now()


def returned_with_an_error(broker: Broker, clock: ManualClock) -> object:
    broker.send("q", "x")
    broker.nack(broker.receive("q")[0], reason="too early", delay=0)
    clock.advance(1)
    delivery = broker.receive("q")[0]
    broker.ack(delivery)
    return delivery.attempt


def with_every_option(broker: Broker, clock: ManualClock) -> object:
    options: list[dict[str, Any]] = [
        {"delay": 1},
        {"ttl": 5},
        {"deadline": 9},
        {"key": "k"},
        {"group": "g"},
        {"headers": {"a": "b"}},
        {"id": "own"},
    ]
    for number, option in enumerate(options):
        broker.send("q", number, **option)
    clock.advance(2)
    got = []
    while found := broker.receive("q"):
        got.append(found[0].payload)
        broker.ack(found[0])
    return got


def kept(broker: Broker, clock: ManualClock) -> object:
    broker.configure("q", keep="body")
    broker.send("q", "x")
    clock.advance(1)
    delivery = broker.receive("q")[0]
    broker.ack(delivery)
    return broker.get(delivery.id)


def limited(broker: Broker, clock: ManualClock) -> object:
    broker.configure("q", max_depth=2, max_payload_bytes=5)
    for payload in ("x", "much too long", "y", "z"):
        with suppress(PayloadTooLarge, QueueFull):
            broker.send("q", payload)
    return clock.now()


def short_lived(broker: Broker, clock: ManualClock) -> object:
    broker.configure("q", ttl=3)
    for payload in ("x", "y"):
        broker.send("q", payload)
    clock.advance(5)
    return broker.receive("q")


def paused(broker: Broker, clock: ManualClock) -> object:
    broker.send("q", "x")
    broker.pause("q")
    clock.advance(1)
    return broker.receive("q")


def at_most_once(broker: Broker, clock: ManualClock) -> object:
    broker.configure("q", delivery="at_most_once")
    broker.send("q", "x")
    clock.advance(1)
    broker.receive("q")
    return clock.now()


SCRIPTS: list[Script] = [
    one_of_each,
    with_a_lease_of_its_own,
    with_a_consumer,
    returned_with_an_error,
    with_every_option,
    kept,
    limited,
    short_lived,
    paused,
    at_most_once,
]


def tables_of(path: Path) -> dict[str, list[Any]]:
    """All rows, without what is random."""
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'rowq_%'")]
        columns = {
            name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})") if row[1] not in ("token", "applied_at")]
            for name in names
        }
        return {
            name: sorted(connection.execute(f"SELECT {', '.join(columns[name])} FROM {name}"), key=repr)
            for name in names
            if name != "rowq_migrations"
        } | {"rowq_counters": connection.execute("SELECT * FROM rowq_counters WHERE name <> 'identity' ORDER BY name").fetchall()}


@pytest.fixture
def _remembering(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is: a call that finds the settings too old takes the general way."""
    monkeypatch.setattr(Sqlite, "settings_max_age_ms", 3_600_000)


@pytest.mark.usefixtures("_remembering")
@pytest.mark.parametrize("audit", [True, False])
@pytest.mark.parametrize("script", SCRIPTS)
def test_both_ways_leave_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: Script, audit: bool) -> None:
    results, tables = [], []
    for way in ("short", "general"):
        if way == "general":
            monkeypatch.setattr(Sqlite, "lone", lambda _: None)
        path, clock = tmp_path / f"{way}.db", ManualClock()
        with rowq.connect(f"sqlite:///{path}", maintenance=False, clock=clock, actor="tester") as broker:
            broker.configure("q", audit=audit)
            results.append(script(broker, clock))
        tables.append(tables_of(path))
    assert results[0] == results[1]
    assert tables[0] == tables[1]


@pytest.mark.usefixtures("_remembering")
def test_the_usual_calls_take_the_short_way(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = connect(clock=ManualClock())
    broker.send("q", "the first of its queue")
    broker.receive("q")  # the first of its queue looks for what is due
    monkeypatch.setattr(Executor, "_perform_together", None)
    broker.send("q", "x")
    delivery = broker.receive("q")[0]
    broker.ack(delivery)
    assert delivery.payload == "x"


def test_the_end_of_a_lease_is_remembered(connect: Connect) -> None:
    """The message is back at that moment, though the queue was looked at for due messages just before."""
    clock = ManualClock()
    broker = connect(clock=clock)
    broker.send_many("q", ["x", "y"])
    broker.receive("q", lease=3600)
    broker.receive("q", lease=0.01)
    clock.advance(0.02)
    assert [delivery.payload for delivery in broker.receive("q")] == ["y"]


def test_two_processes_never_draw_the_same_seq(tmp_path: Path) -> None:
    """Each draws from the number that it knows, unless another has drawn meanwhile."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with rowq.connect(url, maintenance=False) as one, rowq.connect(url, maintenance=False) as other:
        sent = [broker.send("q", number) for number in range(20) for broker in (one, one, other)]
        assert len(set(sent)) == 60
        got = one.receive("q", max=60)
    assert [delivery.id for delivery in got] == sent


def test_every_setting_was_thought_of() -> None:
    """Does a new one matter when a plain message is sent, received or acked? Then `open_to`, `may_receive` or `Lone` has to ask."""
    asked = {"schema", "max_depth", "ttl_ms", "max_payload_bytes", "paused", "throughput_limit", "delivery", "lease_ms", "keep", "audit"}
    of_other_calls = {"retention_ms", "audit_retention_ms", "dlq_ttl_ms", "dlq_exhausted", "require_receipt"}
    of_returns = {"max_attempts", "backoff", "order", "on_exhausted", "count_lease_expiry", "lease_expiry_backoff"}
    of_expiry = {"ttl_from", "refresh_ttl", "on_expire"}
    assert set(Policy.__struct_fields__) == asked | of_other_calls | of_returns | of_expiry


def test_the_time_is_that_of_the_transaction(path: Path, connect: Connect) -> None:
    """Not that of the call: another process may have held the file for long, and have sent meanwhile."""
    clock = ManualClock()
    broker = connect(clock=clock)
    broker.send("q", "x")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        sending = Background(lambda: broker.send("q", "y"))
        eventually(broker._engine.driver._group_commit._turn.locked)  # type: ignore[union-attr]
        clock.advance(60)
        other.execute("ROLLBACK")
        id = sending.result()
    sent = broker.get(id)
    assert sent.sent_at == clock.now()
