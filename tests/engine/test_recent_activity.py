"""What happened read, counted from the audit: by queue, event, who it was, and ten seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from rowq import Broker, ManualClock
from rowq.engine.insights import Insights
from rowq.store import read
from tests.support.database import KINDS, new_database

START = 1_800_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Broker]:
    with rowq.connect(new_database(request.param, tmp_path).url, clock=clock, maintenance=False, actor="app") as broker:
        yield broker


@pytest.fixture
def insights(broker: Broker) -> Insights:
    return broker._engine.insights


def test_nothing_has_happened_at_first(insights: Insights) -> None:
    assert (insights.audit_end(), insights.audit_start(0), insights.tally_audit(0, 0)) == (0, 0, [])


def test_lines_are_counted_by_who_did_it_and_when(broker: Broker, insights: Insights, clock: ManualClock) -> None:
    broker.send_many("q", range(3))
    clock.advance(9.999)
    first, second = broker.receive("q", max=2, consumer="worker")
    broker.ack(first)
    clock.advance(0.001)
    broker.nack(second, reason="no")
    broker.receive("q")
    assert sorted(insights.tally_audit(0, insights.audit_end())) == [
        ("q", "acked", "worker", START, 1),
        ("q", "delivered", "app", START + 10_000, 1),
        ("q", "delivered", "worker", START, 2),
        ("q", "enqueued", "app", START, 3),
        ("q", "nacked", "worker", START + 10_000, 1),
    ]


def test_each_line_is_counted_once_by_whoever_goes_on(broker: Broker, insights: Insights) -> None:
    broker.send_many("q", range(3))
    middle = insights.audit_end()
    broker.send_many("q", range(4))
    end = insights.audit_end()
    assert [each.times for each in (*insights.tally_audit(0, middle), *insights.tally_audit(middle, end))] == [3, 4]
    assert insights.tally_audit(end, end) == []


def test_what_is_of_no_queue_is_not_counted(broker: Broker, insights: Insights) -> None:
    broker.create_key("worker", scopes=["send"])
    assert insights.tally_audit(0, insights.audit_end()) == []


def test_one_begins_where_nothing_older_follows(broker: Broker, insights: Insights, clock: ManualClock) -> None:
    ends = []
    for _ in range(20):
        broker.send_many("q", range(7))
        ends.append(insights.audit_end())
        clock.advance(60)
    for number in (1, 7, 19):
        assert insights.audit_start(START + number * 60_000) == ends[number - 1]
        assert insights.audit_start(START + number * 60_000 - 59_999) == ends[number - 1]
    assert insights.audit_start(clock.now()) == ends[-1]


def test_lines_that_are_gone_are_no_obstacle(broker: Broker, insights: Insights, clock: ManualClock) -> None:
    broker.configure("q", audit_retention=30)
    broker.send_many("q", range(50))
    clock.advance(60)
    broker.send_many("p", range(5))
    broker.maintain()
    after = insights.audit_start(START + 60_000)
    assert [(each.queue, each.times) for each in insights.tally_audit(after, insights.audit_end())] == [("p", 5)]


def test_one_never_begins_further_back_than_the_newest_lines(broker: Broker, insights: Insights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MOST_LINES", 10)
    broker.send_many("q", range(30))
    end = insights.audit_end()
    assert insights.audit_start(0) == end - 10
    assert sum(each.times for each in insights.tally_audit(end - 10, end)) == 10
