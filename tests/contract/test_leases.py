"""A lease runs out, is renewed, or is late but not lost."""

from __future__ import annotations

import pytest

from rowq import Broker, LeaseLost, ManualClock, State
from tests.support.life import assert_gone, drain, is_silent, state_of, take
from tests.support.settling import Settle, every_settle


def test_a_message_comes_back_when_its_lease_runs_out(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x")
    first = take(broker)
    clock.advance(29.8)
    assert is_silent(broker)
    clock.advance(0.3)
    second = take(broker)
    assert (second.id, second.attempt) == (first.id, 2)
    assert second.receipt != first.receipt
    assert second.lease_until == clock.now() + 30_000


def test_only_the_leases_that_ran_out_come_back(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", ["short", "long"])
    take(broker, lease=10)
    take(broker, lease=100)
    clock.advance(11)
    assert take(broker).payload == "short"
    assert is_silent(broker)


@every_settle
def test_a_late_settle_succeeds_while_nobody_took_the_message(broker: Broker, clock: ManualClock, settle: Settle) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    clock.advance(3_000)
    told = len(broker.audit(delivery.id))
    settle(broker, delivery)
    assert len(broker.audit(delivery.id)) > told


def test_a_late_ack_is_an_ack(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    delivery = take(broker)
    clock.advance(3_000)
    broker.ack(delivery)
    assert_gone(broker, id)
    assert is_silent(broker)


def test_a_late_extend_holds_the_message_again(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    clock.advance(40)
    assert broker.extend(delivery, 60) == clock.now() + 60_000
    clock.advance(59)
    assert is_silent(broker)


def test_maintenance_leaves_a_second_for_the_late(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    delivery = take(broker)
    clock.advance(30.5)
    broker.maintain()
    assert state_of(broker, id) == State.LEASED
    broker.ack(delivery)
    assert_gone(broker, id)


def test_maintenance_takes_back_what_is_later_than_that(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    delivery = take(broker)
    clock.advance(31.5)
    assert broker.maintain().lease_expired == 1
    assert state_of(broker, id) == State.READY
    with pytest.raises(LeaseLost):
        broker.ack(delivery)
    assert take(broker).attempt == 2


def test_a_receive_of_another_queue_takes_nothing_back(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    clock.advance(31)
    assert is_silent(broker, "other")
    broker.ack(delivery)


def test_extend_renews_from_now(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    delivery = take(broker)
    clock.advance(10)
    assert broker.extend(delivery, 100) == clock.now() + 100_000
    assert broker.get(id).lease_until == clock.now() + 100_000
    clock.advance(99)
    assert is_silent(broker)
    clock.advance(2)
    assert take(broker).attempt == 2


def test_extend_takes_the_queues_lease_when_none_is_given(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", lease=45)
    broker.send("q", "x")
    delivery = take(broker)
    clock.advance(10)
    assert broker.extend(delivery) == clock.now() + 45_000


def test_extend_may_shorten_a_lease(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x")
    delivery = take(broker, lease=300)
    broker.extend(delivery, 5)
    clock.advance(6)
    assert take(broker).attempt == 2


def test_an_extended_receipt_stays_valid_again_and_again(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    delivery = take(broker)
    for _ in range(10):
        clock.advance(25)
        broker.extend(delivery, 30)
        assert is_silent(broker)
    assert broker.get(id).attempts == 1
    broker.ack(delivery)
    assert_gone(broker, id)


def test_a_crash_of_every_consumer_loses_nothing(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", list(range(10)))
    broker.receive("q", max=10)
    clock.advance(31)
    assert drain(broker) == list(range(10))
