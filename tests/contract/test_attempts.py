"""Attempts are counted when delivered, and limited."""

from __future__ import annotations

import pytest

from rowq import Broker, ManualClock, Settings, State
from tests.support.harness import Harness
from tests.support.life import depths, is_silent, nack_until_dead, state_of, take


def test_an_attempt_is_counted_when_delivered(broker: Broker) -> None:
    id = broker.send("q", "x")
    assert take(broker).attempt == 1
    assert broker.get(id).attempts == 1


def test_five_deliveries_are_the_default(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    assert len(nack_until_dead(broker, clock, id)) + 1 == 5
    message = broker.get(id)
    assert (message.reason, message.attempts, message.error) == ("max_attempts_reached", 5, "failure 5")


def test_the_last_nack_makes_the_dead_letter_at_once(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", max_attempts=1)
    broker.nack(take(broker), reason="boom")
    message = broker.get(id)
    assert (message.state, message.died_at) == (State.DEAD, clock.now())
    assert is_silent(broker)


def test_the_messages_limit_beats_the_queues(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", max_attempts=9)
    id = broker.send("q", "x", max_attempts=2)
    assert len(nack_until_dead(broker, clock, id)) + 1 == 2


def test_the_queues_limit_beats_the_servers(harness: Harness) -> None:
    broker = harness.reopen(defaults=Settings(max_attempts=2))
    broker.configure("q", max_attempts=3)
    assert len(nack_until_dead(broker, harness.clock, broker.send("q", "x"))) + 1 == 3


def test_the_servers_limit_beats_the_engines(harness: Harness) -> None:
    broker = harness.reopen(defaults=Settings(max_attempts=2))
    assert len(nack_until_dead(broker, harness.clock, broker.send("q", "x"))) + 1 == 2


def test_a_changed_limit_holds_for_messages_that_are_there_already(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    broker.configure("q", max_attempts=2)
    assert len(nack_until_dead(broker, clock, id)) + 1 == 2


@pytest.mark.parametrize("of", ["queue", "message"])
def test_zero_is_no_limit(broker: Broker, clock: ManualClock, of: str) -> None:
    if of == "queue":
        broker.configure("q", max_attempts=0)
        broker.send("q", "x")
    else:
        broker.send("q", "x", max_attempts=0)
    for attempt in range(1, 31):
        delivery = take(broker)
        assert delivery.attempt == attempt
        broker.nack(delivery, delay=0)


def test_a_released_delivery_does_not_count(broker: Broker) -> None:
    id = broker.send("q", "x", max_attempts=2)
    for _ in range(10):
        delivery = take(broker)
        assert delivery.attempt == 1
        broker.nack(delivery, counts=False)
    assert broker.get(id).attempts == 0


def test_a_release_of_the_last_attempt_is_no_death(broker: Broker) -> None:
    id = broker.send("q", "x", max_attempts=2)
    broker.nack(take(broker), delay=0)
    broker.nack(take(broker), counts=False)
    assert state_of(broker, id) == State.READY
    assert take(broker).attempt == 2


def test_a_release_may_wait(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    broker.nack(take(broker), counts=False, delay=20)
    message = broker.get(id)
    assert (message.state, message.due_at, message.attempts) == (State.SCHEDULED, clock.now() + 20_000, 0)


def test_a_lease_that_runs_out_counts_and_retries_at_once(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x")
    take(broker)
    clock.advance(31)
    assert take(broker).attempt == 2


def test_leases_that_run_out_use_up_a_message(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", max_attempts=3)
    for _ in range(3):
        take(broker)
        clock.advance(31)
    assert is_silent(broker)
    message = broker.get(id)
    assert (message.state, message.reason, message.attempts) == (State.DEAD, "max_attempts_reached", 3)


def test_maintenance_uses_up_a_message_too(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", max_attempts=1)
    take(broker)
    clock.advance(60)
    broker.maintain()
    assert depths(broker) == {"dead": 1}


def test_the_last_error_stays_with_a_message_whose_last_lease_ran_out(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", max_attempts=2)
    broker.nack(take(broker), reason="boom", delay=0)
    take(broker)
    clock.advance(60)
    broker.maintain()
    assert "boom" in (broker.get(id).error or "")


def test_leases_that_run_out_may_be_left_uncounted(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", count_lease_expiry=False, max_attempts=2)
    id = broker.send("q", "x")
    for _ in range(5):
        assert take(broker).attempt == 1
        clock.advance(31)
    broker.maintain()
    assert (state_of(broker, id), broker.get(id).attempts) == (State.READY, 0)


def test_a_nack_counts_where_a_lost_lease_does_not(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", count_lease_expiry=False, max_attempts=2)
    id = broker.send("q", "x")
    take(broker)
    clock.advance(31)
    assert len(nack_until_dead(broker, clock, id)) + 1 == 2
