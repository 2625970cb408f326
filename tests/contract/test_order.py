"""A message that comes back takes its old place, unless the queue says order="ready"."""

from __future__ import annotations

import pytest

from rowq import Broker, ManualClock
from tests.support.life import drain, payloads, take


def test_a_retry_returns_to_its_old_place(broker: Broker) -> None:
    broker.send_many("q", ["a", "b", "c"])
    a, _ = broker.receive("q", max=2)
    broker.nack(a, delay=0)
    assert payloads(broker.receive("q", max=10)) == ["a", "c"]


def test_a_message_whose_lease_ran_out_returns_to_its_old_place(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", ["a", "b"])
    take(broker)
    clock.advance(31)
    assert drain(broker) == ["a", "b"]


def test_a_delayed_message_takes_the_place_of_its_sending(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "delayed", delay=10)
    broker.send("q", "later")
    clock.advance(10)
    assert drain(broker) == ["delayed", "later"]


def test_messages_due_at_different_times_come_in_order_of_sending(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "first", delay=20)
    broker.send("q", "second", delay=10)
    clock.advance(30)
    assert drain(broker) == ["first", "second"]


def test_a_retry_goes_to_the_back_when_the_queue_orders_by_readiness(broker: Broker) -> None:
    broker.configure("q", order="ready")
    broker.send_many("q", ["a", "b", "c"])
    broker.nack(take(broker), delay=0)
    assert drain(broker) == ["b", "c", "a"]


def test_a_delayed_message_is_placed_when_due_where_the_queue_orders_by_readiness(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", order="ready")
    broker.send("q", "delayed", delay=10)
    broker.send("q", "before")
    clock.advance(10)
    broker.maintain()
    broker.send("q", "after")
    assert drain(broker) == ["before", "delayed", "after"]


@pytest.mark.parametrize("order", ["sent", "ready"])
def test_priority_goes_before_order(broker: Broker, order: str) -> None:
    broker.configure("q", order=order)  # type: ignore[arg-type]
    broker.send("q", "urgent", priority=1)
    broker.nack(take(broker), delay=0)
    broker.send("q", "plain")
    assert drain(broker) == ["urgent", "plain"]
