"""What happened to a message, when, by whom and why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rowq import Broker, ManualClock
from tests.support.harness import Harness
from tests.support.life import bury, history_of, take


def test_a_life_is_told_in_order(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    clock.advance(1)
    broker.nack(take(broker), reason="boom")
    clock.advance(1)
    delivery = take(broker)
    broker.extend(delivery, 60)
    clock.advance(1)
    broker.ack(delivery)
    events = broker.audit(id)
    assert [event.event for event in events] == ["enqueued", "delivered", "nacked", "delivered", "extended", "acked"]
    start = clock.now() - 3_000
    assert [event.at - start for event in events] == [0, 1_000, 1_000, 2_000, 2_000, 3_000]
    assert {(event.id, event.queue) for event in events} == {(id, "q")}


def test_deliveries_tell_their_attempt(broker: Broker) -> None:
    id = broker.send("q", "x")
    broker.nack(take(broker), delay=0)
    broker.ack(take(broker))
    assert [event.attempt for event in broker.audit(id) if event.event == "delivered"] == [1, 2]


LIVES: dict[str, tuple[Callable[[Broker, ManualClock], str], list[str]]] = {}


Life = Callable[[Broker, ManualClock], str]


def life(*expected: str) -> Callable[[Life], Life]:
    def remember(lead: Life) -> Life:
        LIVES[lead.__name__] = (lead, list(expected))
        return lead

    return remember


@life("enqueued", "delivered", "released")
def released(broker: Broker, clock: ManualClock) -> str:
    id = broker.send("q", "x")
    broker.nack(take(broker), counts=False)
    return id


@life("enqueued", "delivered", "rejected")
def rejected(broker: Broker, clock: ManualClock) -> str:
    return bury(broker)


@life("enqueued", "delivered", "rescheduled")
def rescheduled(broker: Broker, clock: ManualClock) -> str:
    id = broker.send("q", "x")
    broker.reschedule(take(broker), 5)
    return id


@life("enqueued", "delivered", "lease_expired", "delivered")
def crashed(broker: Broker, clock: ManualClock) -> str:
    id = broker.send("q", "x")
    take(broker)
    clock.advance(31)
    take(broker)
    return id


@life("enqueued", "delivered", "nacked", "dead")
def used_up(broker: Broker, clock: ManualClock) -> str:
    id = broker.send("q", "x", max_attempts=1)
    broker.nack(take(broker))
    return id


@life("enqueued", "expired")
def expired(broker: Broker, clock: ManualClock) -> str:
    broker.configure("q", on_expire="expired")
    id = broker.send("q", "x", ttl=1)
    clock.advance(2)
    broker.maintain()
    return id


@life("enqueued", "expired", "dead")
def died_waiting(broker: Broker, clock: ManualClock) -> str:
    id = broker.send("q", "x", ttl=1)
    clock.advance(2)
    broker.maintain()
    return id


@life("enqueued", "delivered", "rejected", "redriven")
def redriven(broker: Broker, clock: ManualClock) -> str:
    id = bury(broker)
    broker.redrive("q")
    return id


@life("enqueued", "replaced")
def replaced(broker: Broker, clock: ManualClock) -> str:
    broker.send("q", "x", key="k")
    return broker.send("q", "y", key="k")


@life("enqueued", "delivered", "superseded")
def superseded(broker: Broker, clock: ManualClock) -> str:
    id = broker.send("q", "x", key="k")
    delivery = take(broker)
    broker.send("q", "y", key="k")
    broker.nack(delivery)
    return id


@life("enqueued", "purged")
def purged(broker: Broker, clock: ManualClock) -> str:
    id = broker.send("q", "x")
    broker.purge("q")
    return id


@life("enqueued", "deleted")
def deleted(broker: Broker, clock: ManualClock) -> str:
    id = broker.send("q", "x")
    broker.delete(id)
    return id


def in_order(expected: list[str], told: list[str]) -> bool:
    """Every expected event, in that order; others may stand between them (a rejection may also tell of the death)."""
    rest = iter(told)
    return all(event in rest for event in expected)


@pytest.mark.parametrize("name", LIVES)
def test_every_turn_of_a_life_is_told(broker: Broker, clock: ManualClock, name: str) -> None:
    lead, expected = LIVES[name]
    told = history_of(broker, lead(broker, clock))
    assert in_order(expected, told), told
    assert told.count("enqueued") == 1


def test_the_reason_of_a_death_is_told(broker: Broker, clock: ManualClock) -> None:
    expired = died_waiting(broker, clock)
    assert "message_expired" in (broker.audit(expired)[-1].detail or "")
    used = broker.send("q", "x", max_attempts=1)
    broker.nack(take(broker), reason="the printer is on fire")
    detail = broker.audit(used)[-1].detail or ""
    assert "max_attempts_reached" in detail and "the printer is on fire" in detail


@pytest.mark.parametrize("verb", ["nack", "reject"])
def test_the_reason_of_a_failure_is_told(broker: Broker, verb: str) -> None:
    id = broker.send("q", "x")
    getattr(broker, verb)(take(broker), reason="the printer is on fire")
    assert "the printer is on fire" in " ".join(event.detail or "" for event in broker.audit(id))


def test_the_reason_of_a_reschedule_is_told(broker: Broker) -> None:
    id = broker.send("q", "x")
    broker.reschedule(take(broker), 5, reason="closed on Sundays")
    assert "closed on Sundays" in (broker.audit(id)[-1].detail or "")


def test_who_acts_is_told(harness: Harness) -> None:
    broker = harness.reopen(actor="ada")
    id = broker.send("q", "x")
    broker.delete(id)
    assert [event.actor for event in broker.audit(id)] == ["ada", "ada"]


def test_two_actors_are_told_apart(harness: Harness) -> None:
    id = harness.open(actor="ada").send("q", "x")
    harness.open(actor="bob").delete(id)
    assert [event.actor for event in harness.broker.audit(id)] == ["ada", "bob"]


def test_a_consumer_is_who_a_message_was_delivered_to(harness: Harness) -> None:
    broker = harness.reopen(actor="ada")
    id = broker.send("q", "x")
    take(broker, consumer="worker-1")
    assert [event.actor for event in broker.audit(id)] == ["ada", "worker-1"]


def test_a_delivery_to_nobody_in_particular_is_the_actors(harness: Harness) -> None:
    broker = harness.reopen(actor="ada")
    id = broker.send("q", "x")
    take(broker)
    assert [event.actor for event in broker.audit(id)] == ["ada", "ada"]


def test_looking_is_not_told(broker: Broker) -> None:
    id = broker.send("q", "x")
    broker.get(id)
    broker.browse("q")
    broker.stats("q")
    broker.audit(id)
    assert history_of(broker, id) == ["enqueued"]
