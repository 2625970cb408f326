"""max_depth: a queue that is full takes nothing more until something leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rowq import Broker, ManualClock, QueueFull
from tests.support.life import bury, depths, drain, take


def assert_full(broker: Broker) -> None:
    before = depths(broker)
    with pytest.raises(QueueFull) as error:
        broker.send("q", "one more")
    assert error.value.code == "queue_full"
    assert depths(broker) == before


def test_a_queue_takes_as_many_as_max_depth(broker: Broker) -> None:
    broker.configure("q", max_depth=3)
    broker.send_many("q", [1, 2])
    broker.send("q", 3)
    assert_full(broker)
    assert drain(broker) == [1, 2, 3]


FILLS: dict[str, Callable[[Broker], object]] = {
    "ready": lambda broker: broker.send_many("q", [1, 2]),
    "scheduled": lambda broker: broker.send_many("q", [1, 2], delay=60),
    "blocked": lambda broker: broker.send_many("q", [1, 2], group="g"),
    "leased": lambda broker: (broker.send_many("q", [1, 2]), broker.receive("q", max=2)),
    "backing off": lambda broker: (broker.send_many("q", [1, 2]), broker.nack_many(broker.receive("q", max=2))),
}


@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
def test_everything_still_to_be_done_counts(broker: Broker, fill: Callable[[Broker], object]) -> None:
    broker.configure("q", max_depth=2)
    fill(broker)
    assert_full(broker)
    assert broker.stats("q").depth == 2


def test_dead_and_finished_messages_do_not_count(broker: Broker) -> None:
    broker.configure("q", max_depth=1, keep="body")
    bury(broker)
    broker.send("q", "x")
    drain(broker)
    broker.send("q", "y")
    assert depths(broker) == {"dead": 1, "finished": 1, "ready": 1}


def test_an_ack_makes_room(broker: Broker) -> None:
    broker.configure("q", max_depth=1)
    broker.send("q", 1)
    broker.ack(take(broker))
    broker.send("q", 2)
    assert_full(broker)


def test_a_lower_limit_takes_nothing_away(broker: Broker) -> None:
    broker.send_many("q", [1, 2, 3])
    broker.configure("q", max_depth=1)
    assert_full(broker)
    assert drain(broker) == [1, 2, 3]


def test_a_queue_that_holds_more_than_its_limit_says_so(broker: Broker) -> None:
    broker.send_many("q", list(range(8)))
    broker.configure("q", max_depth=5)
    with pytest.raises(QueueFull, match="holds more than its 5 messages"):
        broker.send("q", "x")


@pytest.mark.parametrize("unlimited", [0, None])
def test_a_limit_is_lifted(broker: Broker, unlimited: int | None) -> None:
    broker.configure("q", max_depth=1)
    broker.send("q", 1)
    broker.configure("q", max_depth=unlimited)
    broker.send_many("q", [2, 3])
    assert drain(broker) == [1, 2, 3]


def test_a_full_queue_does_not_hinder_another(broker: Broker) -> None:
    broker.configure("q", max_depth=1)
    broker.send("q", 1)
    broker.send("p", 1)


def test_a_message_always_returns_to_a_full_queue(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", max_depth=1)
    broker.send("q", 1)
    broker.nack(take(broker), delay=0)
    take(broker)
    clock.advance(31)
    assert take(broker).attempt == 3


def test_what_was_redriven_counts(broker: Broker) -> None:
    broker.configure("q", max_depth=10)
    for number in range(5):
        bury(broker, number)
    broker.send("q", "first")
    broker.redrive("q")
    with pytest.raises(QueueFull):
        broker.send_many("q", list(range(5)))
    assert broker.stats("q").depth == 6
