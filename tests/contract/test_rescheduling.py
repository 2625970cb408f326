"""Later, as if it had never been tried."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowq import Broker, InvalidArgument, LeaseLost, ManualClock, State
from tests.support.life import comes_after, drain, is_silent, take


def test_a_rescheduled_message_waits(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    broker.reschedule(take(broker), 60)
    message = broker.get(id)
    assert (message.state, message.due_at, message.attempts) == (State.SCHEDULED, clock.now() + 60_000, 0)
    assert comes_after(broker, clock, 60).attempt == 1


def test_earlier_attempts_are_forgotten(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", max_attempts=2)
    broker.nack(take(broker), delay=0)
    broker.reschedule(take(broker), 10)
    clock.advance(10)
    delivery = take(broker)
    assert delivery.attempt == 1
    broker.nack(delivery, delay=0)
    assert broker.get(id).state == State.READY


def test_the_expiry_moves_by_the_same_amount(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", ttl=100)
    expires_at = broker.get(id).expires_at or 0
    clock.advance(10)
    broker.reschedule(take(broker), timedelta(seconds=500))
    assert broker.get(id).expires_at == expires_at + 500_000
    clock.advance(585)
    assert take(broker).id == id


def test_a_moved_expiry_still_holds(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", ttl=100)
    broker.reschedule(take(broker), 50)
    clock.advance(151)
    assert is_silent(broker)


def test_a_message_without_expiry_gets_none(broker: Broker) -> None:
    id = broker.send("q", "x")
    broker.reschedule(take(broker), 50)
    assert broker.get(id).expires_at is None


def test_a_reschedule_to_now_is_ready(broker: Broker) -> None:
    broker.send("q", "x")
    broker.reschedule(take(broker), 0)
    assert take(broker).attempt == 1


def test_the_old_place_is_taken_again(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", ["a", "b"])
    broker.reschedule(take(broker), 10)
    clock.advance(10)
    assert drain(broker) == ["a", "b"]


def test_the_receipt_ends_with_it(broker: Broker) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    broker.reschedule(delivery, 10)
    with pytest.raises(LeaseLost):
        broker.ack(delivery)


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), 367 * 86_400, "soon", None, True])
def test_a_bad_delay_leaves_the_lease_as_it_was(broker: Broker, delay: Any) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    before = broker.get(delivery.id)
    with pytest.raises(InvalidArgument):
        broker.reschedule(delivery, delay)
    assert broker.get(delivery.id) == before
    broker.ack(delivery)
