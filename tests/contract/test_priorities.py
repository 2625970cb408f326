"""Higher first, then order of sending."""

from __future__ import annotations

from rowq import Broker, Draft, ManualClock
from tests.support.life import drain, payloads, take


def test_higher_priority_comes_first(broker: Broker) -> None:
    broker.send_many("q", [Draft(p, priority=p) for p in (0, 5, -3, 100, 1)])
    assert drain(broker) == [100, 5, 1, 0, -3]


def test_equal_priorities_come_in_order_of_sending(broker: Broker) -> None:
    broker.send_many("q", [Draft("b1", priority=1), Draft("a1", priority=2), Draft("b2", priority=1), Draft("a2", priority=2)])
    assert drain(broker) == ["a1", "a2", "b1", "b2"]


def test_one_call_is_ordered_like_many(broker: Broker) -> None:
    broker.send_many("q", [Draft("low", priority=-1), "middle", Draft("high", priority=1)])
    assert payloads(broker.receive("q", max=3)) == ["high", "middle", "low"]


def test_a_late_urgent_message_overtakes(broker: Broker) -> None:
    broker.send_many("q", ["a", "b"])
    assert take(broker).payload == "a"
    broker.send("q", "urgent", priority=1)
    assert [take(broker).payload for _ in range(2)] == ["urgent", "b"]


def test_a_retry_keeps_its_priority(broker: Broker) -> None:
    broker.send("q", "urgent", priority=1)
    broker.nack(take(broker), delay=0)
    broker.send("q", "plain")
    assert drain(broker) == ["urgent", "plain"]


def test_a_delayed_message_keeps_its_priority(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "urgent", priority=1, delay=10)
    broker.send("q", "plain")
    clock.advance(10)
    assert drain(broker) == ["urgent", "plain"]


def test_a_released_lease_keeps_its_priority(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "urgent", priority=1)
    take(broker)
    broker.send("q", "plain")
    clock.advance(31)
    assert drain(broker) == ["urgent", "plain"]


def test_priority_is_of_its_own_queue(broker: Broker) -> None:
    broker.send("p", "urgent", priority=9)
    broker.send("q", "plain")
    assert drain(broker, "q") == ["plain"]
