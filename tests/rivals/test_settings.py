"""What is set by one broker holds for the others, soon after: they look once a second, and are not told.

The others are in the same process here, and share nothing with the first but the database, as those of another process would.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rowq
from tests.support.background import Background
from tests.support.patience import DEADLINE, eventually

SOON = DEADLINE / 2
"""Seconds: a broker that has not heard of it by then never will."""


@pytest.fixture
def other(url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(url) as broker:
        yield broker


def test_a_pause_and_its_end_are_seen_by_others(broker: rowq.Broker, other: rowq.Broker) -> None:
    broker.send_many("q", range(1000))
    assert other.receive("q")
    broker.pause("q")
    eventually(lambda: other.receive("q") == [], SOON)
    assert [other.receive("q") for _ in range(5)] == [[]] * 5
    broker.resume("q")
    eventually(lambda: other.receive("q"), SOON)


def test_a_consumer_that_waits_at_a_paused_queue_is_served_when_another_resumes_it(broker: rowq.Broker, other: rowq.Broker) -> None:
    broker.configure("q")
    broker.pause("q")
    broker.send("q", "late")
    waiting = Background(lambda: other.receive("q", wait=60))
    eventually(other._engine._room.count)
    waiting.join(0.1)
    assert waiting.is_running
    broker.resume("q")
    assert [delivery.payload for delivery in waiting.result(SOON)] == ["late"]


def test_a_limit_set_elsewhere_refuses_here(broker: rowq.Broker, other: rowq.Broker) -> None:
    def is_full() -> bool:
        try:
            other.send("q", 1)
        except rowq.QueueFull:
            return True
        return False

    assert not is_full()
    broker.configure("q", max_depth=1)
    eventually(is_full, SOON)
    broker.configure("q", max_depth=None)
    eventually(lambda: not is_full(), SOON)
