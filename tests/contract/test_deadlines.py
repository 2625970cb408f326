"""A deadline in both delivery modes: work that is late is taken over (at least once), or given up (at most once)."""

from __future__ import annotations

import pytest

from rowq import Broker, LeaseLost, ManualClock, State
from tests.support.life import is_silent, state_of, take


def given_up(broker: Broker, id: str) -> bool:
    """Neither waiting nor in flight: nobody will be handed it again."""
    return state_of(broker, id) in (State.DEAD, State.FINISHED)


def test_a_waiting_message_past_its_deadline_is_still_delivered_at_least_once(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", deadline=10)
    clock.advance(100)
    broker.maintain()
    assert take(broker).payload == "x"


def test_a_leased_message_past_its_deadline_may_be_taken_by_another(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", deadline=10)
    first = take(broker, lease=300)
    clock.advance(9)
    assert is_silent(broker)
    clock.advance(2)
    second = take(broker, lease=300)
    assert (second.id, second.attempt) == (first.id, 2)
    with pytest.raises(LeaseLost):
        broker.ack(first)
    broker.ack(second)


def test_a_message_without_deadline_is_kept_for_its_whole_lease(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x")
    take(broker, lease=300)
    clock.advance(299)
    assert is_silent(broker)


def test_past_its_deadline_a_message_is_never_delivered_at_most_once(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", delivery="at_most_once")
    id = broker.send("q", "x", deadline=10)
    clock.advance(11)
    assert is_silent(broker)
    broker.maintain()
    message = broker.get(id)
    assert (message.state, message.reason) == (State.DEAD, "deadline_exceeded")


def test_before_its_deadline_a_message_is_delivered_at_most_once(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", delivery="at_most_once")
    broker.send("q", "x", deadline=10)
    clock.advance(9)
    broker.ack(take(broker))


def test_a_crash_is_not_retried_at_most_once(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", delivery="at_most_once")
    id = broker.send("q", "x")
    take(broker)
    clock.advance(31)
    assert is_silent(broker)
    broker.maintain()
    assert given_up(broker, id)


def test_a_failure_before_the_deadline_is_retried_at_most_once(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", delivery="at_most_once")
    broker.send("q", "x", deadline=10)
    broker.nack(take(broker))
    clock.advance(1)
    assert take(broker).attempt == 2


def test_a_failure_past_the_deadline_is_given_up_at_most_once(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", delivery="at_most_once")
    id = broker.send("q", "x", deadline=10)
    delivery = take(broker)
    clock.advance(11)
    broker.nack(delivery, delay=0)
    assert is_silent(broker)
    broker.maintain()
    assert broker.get(id).reason == "deadline_exceeded"


def test_a_retry_that_would_come_past_the_deadline_is_never_delivered_at_most_once(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", delivery="at_most_once")
    id = broker.send("q", "x", deadline=10)
    broker.nack(take(broker), delay=60)
    clock.advance(61)
    assert is_silent(broker)
    broker.maintain()
    assert given_up(broker, id)


def test_work_done_past_the_deadline_is_acked_while_the_lease_holds(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", deadline=10)
    delivery = take(broker)
    clock.advance(11)
    broker.ack(delivery)
    assert "acked" in [event.event for event in broker.audit(id)]


def test_the_mode_of_the_call_beats_the_queues(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    take(broker, delivery="at_most_once")
    clock.advance(31)
    assert is_silent(broker)
    broker.maintain()
    assert given_up(broker, id)


def test_a_call_may_ask_for_at_least_once(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", delivery="at_most_once")
    broker.send("q", "x")
    take(broker, delivery="at_least_once")
    clock.advance(31)
    assert take(broker, delivery="at_least_once").attempt == 2
