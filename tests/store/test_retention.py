"""Retiring on every database: all of it goes, in its order and in its time, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from rowq import Broker, ManualClock
from rowq.engine import retention
from rowq.engine.retention import PIECE, Retention
from rowq.store.meter import Meter
from tests.support.database import KINDS, new_database
from tests.support.patience import eventually

LINES = 3
"""Of the audit, for a message that is sent, delivered and acked."""


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_database(request.param, tmp_path).url


@pytest.fixture
def broker(url: str, clock: ManualClock) -> Iterator[Broker]:
    with rowq.connect(url, clock=clock, maintenance=False) as broker:
        yield broker


@pytest.fixture
def keeper(broker: Broker) -> Retention:
    return broker._engine.maintenance._retiring


def retire(broker: Broker, keeper: Retention, seconds: float | None = None, *, goes_on: bool = False) -> int:
    return broker._engine.driver.drive(keeper.all(seconds, goes_on=goes_on))


def finish(broker: Broker, queue: str, count: int) -> None:
    for start in range(0, count, 1_000):
        size = min(1_000, count - start)
        broker.send_many(queue, list(range(size)))
        broker.ack_many(broker.receive(queue, max=size))


def lines(broker: Broker) -> int:
    with broker._engine.dialect.reading() as session:
        return sum(row[3] for row in session.rows("list_audit", after=0, limit=100_000))


def test_a_turn_ends_when_its_time_is_over_and_the_next_goes_on(broker: Broker, keeper: Retention, clock: ManualClock) -> None:
    broker.configure("q", keep="outcome", retention=10, audit_retention=10)
    finish(broker, "q", 3 * PIECE)
    clock.advance(60)
    assert (retire(broker, keeper, 0), keeper.is_behind) == (0, True)
    retired = retire(broker, keeper, 60, goes_on=True)
    assert (retired >= 3 * PIECE * (1 + LINES), keeper.is_behind) == (True, False)
    assert (broker.stats("q").finished, lines(broker)) == (0, 1)


def test_what_is_kept_for_longer_is_passed_over_once_in_a_while(broker: Broker, keeper: Retention, clock: ManualClock) -> None:
    broker.configure("short", audit_retention=10)
    broker.configure("long", audit_retention=1_000)
    retire(broker, keeper)
    finish(broker, "long", PIECE)
    finish(broker, "short", PIECE)
    clock.advance(60)
    assert retire(broker, keeper) >= PIECE * LINES
    finish(broker, "short", PIECE)
    clock.advance(60)
    assert retire(broker, keeper, goes_on=True) >= PIECE * LINES
    clock.advance(1_000)
    assert retire(broker, keeper) >= PIECE * LINES, "those that were passed over have grown old as well"


def test_pieces_grow_while_they_are_quick(broker: Broker, keeper: Retention, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.configure("q", keep="outcome", retention=10, audit=False)
    finish(broker, "q", 10 * PIECE)
    clock.advance(60)
    monkeypatch.setattr(retention, "MOMENT", 1_000.0)
    meter = Meter()
    broker._engine.attach(meter)
    retire(broker, keeper)
    assert sum(meter.read_store().calls.counts) < 10, "five thousand lines of history, and not five hundred at a time"


def test_pieces_do_not_grow_where_they_are_slow(
    broker: Broker, keeper: Retention, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.configure("q", keep="outcome", retention=10, audit=False)
    finish(broker, "q", 6 * PIECE)
    clock.advance(60)
    monkeypatch.setattr(retention, "MOMENT", 0.0)
    monkeypatch.setattr(retention, "LONGEST", 0.0)
    meter = Meter()
    broker._engine.attach(meter)
    retire(broker, keeper)
    assert sum(meter.read_store().calls.counts) >= 6


def test_a_busy_queue_keeps_no_other_waiting(
    broker: Broker, keeper: Retention, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MOMENT", 0.0)
    monkeypatch.setattr(retention, "LONGEST", 0.0)
    for queue in ("busy", "quiet"):
        broker.configure(queue, keep="outcome", retention=10, audit=False)
    finish(broker, "busy", 4 * PIECE)
    finish(broker, "quiet", 1)
    clock.advance(60)
    steps = keeper.all()
    removed = 0
    answer = None
    while broker.stats("quiet").finished:
        answer = broker._engine.driver._take(steps.send(answer))
        removed += 1
    assert broker.stats("busy").finished >= 2 * PIECE
    steps.close()


def test_an_audit_that_falls_empty_again_and_again_leaves_one_line(broker: Broker, keeper: Retention, clock: ManualClock) -> None:
    """The shell that keeps the last number; a shell of each time would stay for as long as the engine's default says."""
    broker.configure("q", audit_retention=10)
    for _ in range(4):
        finish(broker, "q", 3)
        clock.advance(60)
        assert retire(broker, keeper) >= 3 * LINES
        assert lines(broker) == 1
        assert retire(broker, keeper) == 0


def test_a_process_that_is_not_there_for_long_retires_too(url: str) -> None:
    with rowq.connect(url) as broker:
        broker.configure("q", keep="outcome", retention=0.001, audit_retention=0.001)
        finish(broker, "q", 10)
        eventually(lambda: broker.stats("q").finished == 0 and lines(broker) == 1)
