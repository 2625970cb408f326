"""The moment itself: what lasts until then is over then, and not a millisecond before."""

from __future__ import annotations

from rowq import Broker, ManualClock, State
from tests.support.life import bury, is_silent, state_of, take

A_MOMENT = 0.001


def test_a_message_is_free_in_the_moment_its_lease_ends(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x")
    take(broker, lease=10)
    clock.advance(10 - A_MOMENT)
    assert is_silent(broker)
    clock.advance(A_MOMENT)
    assert take(broker).attempt == 2


def test_a_message_is_ready_in_the_moment_it_falls_due(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", delay=10)
    clock.advance(10 - A_MOMENT)
    assert is_silent(broker)
    clock.advance(A_MOMENT)
    assert take(broker).attempt == 1


def test_a_message_is_delivered_until_the_moment_before_its_ttl_ends(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "in time", ttl=10)
    clock.advance(10 - A_MOMENT)
    assert take(broker).payload == "in time"
    broker.send("q", "too late", ttl=10)
    clock.advance(10)
    assert is_silent(broker)


def test_maintenance_ends_a_message_in_the_moment_its_ttl_ends(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", ttl=10)
    clock.advance(10 - A_MOMENT)
    assert broker.maintain().expired == 0
    clock.advance(A_MOMENT)
    assert broker.maintain().expired == 1


def test_a_message_is_given_up_at_most_once_in_the_moment_of_its_deadline(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", delivery="at_most_once")
    id = broker.send("q", "x", deadline=10)
    clock.advance(10)
    assert is_silent(broker)
    assert state_of(broker, id) is State.DEAD


def test_no_lease_goes_beyond_the_deadline_nor_does_an_extension(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", deadline=10)
    deadline = clock.now() + 10_000
    delivery = take(broker, lease=5)
    clock.advance(1)
    assert broker.extend(delivery, 60) == deadline
    clock.advance(9 - A_MOMENT)
    assert is_silent(broker)
    clock.advance(A_MOMENT)
    assert take(broker).attempt == 2


def test_a_dead_letter_goes_in_the_moment_its_time_is_over(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", dlq_ttl=10)
    bury(broker)
    clock.advance(10 - A_MOMENT)
    assert broker.maintain().retired == 0
    clock.advance(A_MOMENT)
    assert broker.maintain().retired == 1


def test_history_goes_in_the_moment_its_retention_ends_and_what_is_younger_stays(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", keep="body", retention=10)
    old = broker.send("q", "old")
    broker.ack(take(broker))
    clock.advance(A_MOMENT)
    young = broker.send("q", "young")
    broker.ack(take(broker))
    clock.advance(10 - 2 * A_MOMENT)
    assert broker.maintain().retired == 0
    clock.advance(A_MOMENT)
    assert broker.maintain().retired == 1
    assert [message.id for message in broker.browse("q", state="finished")] == [young] != [old]
