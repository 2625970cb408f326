"""Dead letters can be received: acked away, or returned to the dead."""

from __future__ import annotations

import pytest

from rowq import Broker, LeaseLost, ManualClock, State
from tests.support.life import assert_gone, bury, depths, is_silent, payloads, state_of, take


@pytest.mark.parametrize("name", ["q.dlq", "q-dlq"])
def test_both_names_mean_the_dead_letters(broker: Broker, name: str) -> None:
    id = bury(broker, {"to": "ada"}, headers={"h": "1"})
    delivery = take(broker, name)
    assert (delivery.id, delivery.payload, delivery.headers) == (id, {"to": "ada"}, {"h": "1"})
    assert state_of(broker, id) == State.LEASED


def test_the_oldest_dead_letter_comes_first(broker: Broker) -> None:
    for number in range(3):
        bury(broker, number)
    assert payloads(broker.receive("q.dlq", max=2)) == [0, 1]
    assert payloads(broker.receive("q-dlq", max=2)) == [2]


def test_a_leased_dead_letter_is_nobody_elses(broker: Broker) -> None:
    bury(broker)
    take(broker, "q.dlq")
    assert is_silent(broker, "q-dlq")
    assert is_silent(broker, "q")


def test_attempts_are_counted_afresh(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", max_attempts=3)
    for _ in range(3):
        broker.nack(take(broker), delay=0)
    delivery = take(broker, "q.dlq")
    assert delivery.attempt == 1
    broker.nack(delivery, delay=0)
    assert take(broker, "q.dlq").attempt == 2


def test_ack_removes_a_dead_letter(broker: Broker) -> None:
    id = bury(broker)
    broker.ack(take(broker, "q.dlq"))
    assert_gone(broker, id)
    assert depths(broker) == {}


def test_nack_returns_it_to_the_dead_at_once(broker: Broker, clock: ManualClock) -> None:
    id = bury(broker, reason="first")
    broker.nack(take(broker, "q.dlq"), reason="still broken")
    message = broker.get(id)
    assert (message.state, message.reason) == (State.DEAD, "rejected")
    clock.advance(1)
    assert is_silent(broker, "q")
    assert take(broker, "q.dlq").id == id


def test_reject_returns_it_to_the_dead(broker: Broker) -> None:
    id = bury(broker)
    broker.reject(take(broker, "q.dlq"))
    assert state_of(broker, id) == State.DEAD


def test_a_lost_lease_returns_it_to_the_dead(broker: Broker, clock: ManualClock) -> None:
    id = bury(broker)
    first = take(broker, "q.dlq")
    clock.advance(31)
    assert is_silent(broker, "q")
    second = take(broker, "q.dlq")
    assert second.id == id
    with pytest.raises(LeaseLost):
        broker.ack(first)
    broker.ack(second)


def test_maintenance_returns_it_to_the_dead(broker: Broker, clock: ManualClock) -> None:
    id = bury(broker)
    take(broker, "q.dlq")
    clock.advance(40)
    broker.maintain()
    assert state_of(broker, id) == State.DEAD


def test_the_lease_of_a_dead_letter_is_extended(broker: Broker, clock: ManualClock) -> None:
    bury(broker)
    delivery = take(broker, "q.dlq")
    broker.extend(delivery, 100)
    clock.advance(60)
    assert is_silent(broker, "q.dlq")
    broker.ack(delivery)


def exhaust_dead(broker: Broker, deliveries: int) -> None:
    for _ in range(deliveries):
        broker.nack(take(broker, "q.dlq"), delay=0)


def test_a_used_up_dead_letter_is_kept_by_default(broker: Broker) -> None:
    broker.configure("q", max_attempts=2)
    id = bury(broker)
    exhaust_dead(broker, 2)
    assert state_of(broker, id) == State.DEAD
    assert broker.redrive("q") == 1


def test_a_used_up_dead_letter_may_be_deleted(broker: Broker) -> None:
    broker.configure("q", max_attempts=2, dlq_exhausted="delete")
    id = bury(broker)
    exhaust_dead(broker, 1)
    assert state_of(broker, id) == State.DEAD
    exhaust_dead(broker, 1)
    assert_gone(broker, id)
    assert depths(broker) == {}


def test_a_dead_letter_is_never_buried_in_a_second_place(broker: Broker) -> None:
    broker.configure("q", max_attempts=1)
    bury(broker)
    exhaust_dead(broker, 1)
    assert is_silent(broker, "q.dlq.dlq")
    assert [stats.queue for stats in broker.queues()] == ["q"]


def test_the_ttl_of_the_living_does_not_hold_for_the_dead(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", ttl=10)
    clock.advance(11)
    broker.maintain()
    clock.advance(100)
    assert take(broker, "q.dlq").payload == "x"
