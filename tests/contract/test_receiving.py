"""Receiving: order, how many, for how long, by whom."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowq import Broker, ManualClock, Settings, State
from tests.support.harness import Harness
from tests.support.life import depths, is_silent, payloads, take


def test_the_oldest_message_comes_first(broker: Broker) -> None:
    for number in range(5):
        broker.send("q", number)
    assert [take(broker).payload for _ in range(5)] == [0, 1, 2, 3, 4]


def test_one_message_is_received_unless_more_are_asked_for(broker: Broker) -> None:
    broker.send_many("q", [1, 2])
    assert payloads(broker.receive("q")) == [1]


def test_at_most_max_messages_are_received(broker: Broker) -> None:
    broker.send_many("q", list(range(5)))
    assert payloads(broker.receive("q", max=3)) == [0, 1, 2]
    assert payloads(broker.receive("q", max=3)) == [3, 4]
    assert broker.receive("q", max=3) == []


def test_a_thousand_messages_are_received_at_once(broker: Broker) -> None:
    broker.send_many("q", list(range(1_001)))
    assert payloads(broker.receive("q", max=1_000)) == list(range(1_000))


def test_a_leased_message_is_nobody_elses(broker: Broker) -> None:
    id = broker.send("q", "x")
    take(broker)
    assert is_silent(broker)
    assert state_of_lease(broker, id) == (State.LEASED, 1)


def state_of_lease(broker: Broker, id: str) -> tuple[State, int]:
    message = broker.get(id)
    return message.state, message.attempts


def test_every_delivery_has_a_receipt_of_its_own(broker: Broker) -> None:
    broker.send_many("q", list(range(20)))
    deliveries = broker.receive("q", max=20)
    assert len({delivery.receipt.rsplit(".", 1)[1] for delivery in deliveries}) == 20


def test_the_lease_is_thirty_seconds_by_default(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    clock.advance(3)
    assert take(broker).lease_until == clock.now() + 30_000
    message = broker.get(id)
    assert (message.leased_at, message.lease_until) == (clock.now(), clock.now() + 30_000)


def test_the_queues_lease_beats_the_default(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", lease=90)
    broker.send("q", "x")
    assert take(broker).lease_until == clock.now() + 90_000


def test_the_lease_of_the_call_beats_the_queues(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", lease=90)
    broker.send("q", "x")
    assert take(broker, lease=0.5).lease_until == clock.now() + 500


def test_the_servers_lease_beats_the_default_and_the_queues_beats_it(harness: Harness) -> None:
    broker = harness.reopen(defaults=Settings(lease_ms=7_000))
    broker.send("q", "x")
    assert take(broker).lease_until == harness.clock.now() + 7_000
    broker.configure("p", lease=8)
    broker.send("p", "x")
    assert take(broker, "p").lease_until == harness.clock.now() + 8_000


def test_a_lease_may_be_a_timedelta(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x")
    assert take(broker, lease=timedelta(minutes=2)).lease_until == clock.now() + 120_000


def test_the_consumer_is_known_while_it_holds_the_message(broker: Broker) -> None:
    id = broker.send("q", "x")
    delivery = take(broker, consumer="worker-1")
    assert broker.get(id).consumer == "worker-1"
    broker.nack(delivery, delay=0)
    assert broker.get(id).consumer is None


@pytest.mark.parametrize("queue", ["never", "never.dlq", "never-dlq"])
def test_a_queue_never_used_is_empty(broker: Broker, queue: str) -> None:
    assert broker.receive(queue, max=10) == []


def test_what_was_received_together_is_settled_apart(broker: Broker) -> None:
    broker.send_many("q", ["ack", "nack", "reject", "hold"])
    ack, nack, reject, _ = broker.receive("q", max=10)
    broker.ack(ack)
    broker.nack(nack)
    broker.reject(reject)
    assert depths(broker) == {"scheduled": 1, "dead": 1, "leased": 1}
