"""Segments on every database: a range is planned once, committed once, and leaves the database line by line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

import rowq
from rowq.connect import open_engine
from rowq.engine.engine import Engine
from rowq.spark.tables import open_tabular
from rowq.store.stream.segment import Commit, Kind, Plan, Purge, Segment, count_lines, list_segments
from tests.pipeline.past import work_off
from tests.support.database import Database
from tests.support.tables import faults_of

KEPT: Kind = "history"


@pytest.fixture
def broker(database: Database) -> Iterator[rowq.Broker]:
    with rowq.connect(database.url, maintenance=False) as broker:
        yield broker


@pytest.fixture
def engine(broker: rowq.Broker, database: Database) -> Iterator[Engine]:
    with closing(open_engine(database.url, maintenance=False, migrate=False)) as engine:
        yield engine


def settled(url: str, kind: Kind = KEPT) -> int:
    with open_tabular(url) as tabular:
        return tabular.settled(kind)


def known(engine: Engine, kind: Kind = KEPT) -> list[Segment]:
    with engine.dialect.reading() as session:
        return list_segments(session, "lake", kind)


def lines(engine: Engine, kind: Kind) -> int:
    with engine.dialect.reading() as session:
        return count_lines(session, kind, 1, 1 << 40)[0]


def planned(engine: Engine, upto: int, most: int = 100) -> Segment:
    segment = engine.act(Plan("lake", KEPT, upto, most))
    assert segment is not None
    return segment


def test_nothing_is_planned_where_there_is_nothing(engine: Engine, database: Database) -> None:
    assert engine.act(Plan("lake", KEPT, settled(database.url), 10)) is None
    assert known(engine) == []


def test_a_plan_stands_until_it_is_committed(engine: Engine, broker: rowq.Broker, database: Database) -> None:
    work_off(broker, 5)
    first = planned(engine, settled(database.url))
    assert (first.number, first.lines, first.state) == (1, 5, "intent")
    work_off(broker, 5)
    assert planned(engine, settled(database.url)) == first
    engine.act(Commit("lake", KEPT, 1, 5))
    engine.act(Commit("lake", KEPT, 1, 4))  # once is once
    assert known(engine)[0].state == "committed" and known(engine)[0].lines == 5
    second = planned(engine, settled(database.url))
    assert (second.number, second.first, second.lines) == (2, first.last + 1, 5)


def test_a_long_past_is_cut_into_segments_that_meet(engine: Engine, broker: rowq.Broker, database: Database) -> None:
    work_off(broker, 25)
    upto = settled(database.url)
    while (segment := engine.act(Plan("lake", KEPT, upto, 10))) is not None:
        engine.act(Commit("lake", KEPT, segment.number, segment.lines))
    cut = known(engine)
    assert [segment.lines for segment in cut] == [10, 10, 5]
    assert [segment.first for segment in cut[1:]] == [segment.last + 1 for segment in cut[:-1]]
    assert cut[0].first == 1 and cut[-1].last == upto


def test_lakes_do_not_know_of_each_other(engine: Engine, broker: rowq.Broker, database: Database) -> None:
    work_off(broker, 3)
    one, other = (engine.act(Plan(lake, KEPT, settled(database.url), 10)) for lake in ("lake", "another"))
    assert one is not None and other is not None
    assert (one.first, one.last) == (other.first, other.last)


@pytest.mark.parametrize("kind", ["history", "audit"])
def test_a_purge_takes_exactly_the_lines_of_its_segment(engine: Engine, broker: rowq.Broker, database: Database, kind: Kind) -> None:
    ids = work_off(broker, 12)
    before = lines(engine, kind)
    segment = engine.act(Plan("lake", kind, settled(database.url, kind), 10))
    assert segment is not None
    engine.act(Commit("lake", kind, 1, 10))
    gone, after = engine.act(Purge("lake", kind, 1, segment.first, segment.last, 4))
    assert gone == 4 and after is not None
    assert known(engine, kind)[0].state == "committed"
    while after is not None:
        gone, after = engine.act(Purge("lake", kind, 1, after, segment.last, 4))
    assert lines(engine, kind) == before - 10
    assert known(engine, kind)[0].state == "purged"
    if kind == "history":
        assert [message.id for message in broker.browse("orders", state="finished")] == ids[10:]
        assert faults_of(database.url) == {}  # it tells by the audit, too, which is cut in the other case


@pytest.mark.parametrize("kind", ["history", "audit"])
def test_line_numbers_go_on_after_everything_was_purged(engine: Engine, broker: rowq.Broker, database: Database, kind: Kind) -> None:
    work_off(broker, 3)
    segment = engine.act(Plan("lake", kind, settled(database.url, kind), 100))
    assert segment is not None
    engine.act(Commit("lake", kind, 1, segment.lines))
    assert engine.act(Purge("lake", kind, 1, segment.first, segment.last, 100)) == (segment.lines, None)
    assert lines(engine, kind) == 0
    work_off(broker, 2)
    following = engine.act(Plan("lake", kind, settled(database.url, kind), 100))
    assert following is not None
    assert following.first == segment.last + 1
    assert following.lines == lines(engine, kind) > 0
    assert faults_of(database.url) == {}
