"""How a message dies, and what its dead letter tells."""

from __future__ import annotations

import pytest

from rowq import Broker, ManualClock, NameReserved, State
from tests.support.life import assert_gone, bury, depths, drain, ids, is_silent, take


def test_a_rejected_message_is_dead_at_once(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", {"to": "ada"}, headers={"h": "1"})
    clock.advance(5)
    broker.reject(take(broker), reason="no such address")
    message = broker.get(id)
    assert (message.state, message.reason, message.error) == (State.DEAD, "rejected", "no such address")
    assert (message.died_at, message.attempts) == (clock.now(), 1)
    assert (message.payload, message.headers) == ({"to": "ada"}, {"h": "1"})
    assert is_silent(broker)


def test_a_rejection_needs_no_reason(broker: Broker) -> None:
    message = broker.get(bury(broker))
    assert (message.reason, message.error) == ("rejected", None)


def test_an_expired_message_is_dead_for_that_reason(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", ttl=10)
    clock.advance(11)
    broker.maintain()
    message = broker.get(id)
    assert (message.state, message.reason, message.attempts) == (State.DEAD, "message_expired", 0)


def test_the_last_of_several_errors_is_kept(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", max_attempts=2)
    broker.nack(take(broker), reason="first", delay=0)
    broker.nack(take(broker), reason="second")
    message = broker.get(id)
    assert (message.reason, message.error) == ("max_attempts_reached", "second")


def test_dead_letters_are_browsed_oldest_first(broker: Broker) -> None:
    buried = [bury(broker, number) for number in range(3)]
    browsed = broker.browse("q", state="dead")
    assert ids(browsed) == buried
    assert {message.reason for message in browsed} == {"rejected"}


def test_a_dead_letter_of_one_queue_is_not_anothers(broker: Broker) -> None:
    broker.configure("p")
    bury(broker, "x", "q")
    assert broker.browse("p", state="dead") == []
    assert broker.receive("p.dlq") == []
    assert depths(broker, "q") == {"dead": 1}


def test_dead_letters_are_kept_for_ever_by_default(broker: Broker, clock: ManualClock) -> None:
    bury(broker)
    clock.advance(365 * 86_400)
    broker.maintain()
    assert depths(broker) == {"dead": 1}


def test_dead_letters_are_deleted_after_dlq_ttl(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", dlq_ttl=60)
    id = broker.send("q", "x")
    clock.advance(20)
    broker.reject(take(broker))
    clock.advance(59)
    broker.maintain()
    assert depths(broker) == {"dead": 1}
    clock.advance(2)
    broker.maintain()
    assert depths(broker) == {}
    assert_gone(broker, id)


def test_a_dead_letter_past_dlq_ttl_is_not_delivered_even_before_maintenance(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", dlq_ttl=60)
    for payload in range(5):
        bury(broker, payload)
    clock.advance(30)
    young = bury(broker, "young")
    clock.advance(30)
    assert ids(broker.receive("q.dlq", max=3)) == [young]
    assert depths(broker) == {"dead": 1} and broker.run_maintenance("expired-dlq") == 0


def test_a_dead_letter_that_somebody_has_outlives_dlq_ttl_until_it_comes_back(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", dlq_ttl=60)
    for payload in "ab":
        bury(broker, payload)
    clock.advance(50)
    acked, returned = broker.receive("q.dlq", max=2)
    clock.advance(20)
    broker.maintain()
    broker.ack(acked)
    broker.nack(returned, delay=0)
    assert is_silent(broker, "q.dlq") and depths(broker) == {}


def test_the_longest_name_has_dead_letters_too(broker: Broker) -> None:
    name = "q" * 64
    id = bury(broker, queue=name)
    assert ids(broker.browse(f"{name}.dlq")) == ids(broker.receive(f"{name}-dlq")) == [id]


def test_dlq_ttl_is_counted_from_the_last_death(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", dlq_ttl=60)
    bury(broker)
    clock.advance(50)
    broker.redrive("q")
    broker.reject(take(broker))
    clock.advance(50)
    broker.maintain()
    assert depths(broker) == {"dead": 1}


def test_a_message_that_is_no_longer_dead_is_spared_by_dlq_ttl(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", dlq_ttl=60)
    bury(broker)
    broker.redrive("q")
    clock.advance(100)
    broker.maintain()
    assert drain(broker) == ["x"]


@pytest.mark.parametrize("name", ["q.dlq", "q-dlq", "q.dlq.dlq"])
def test_nobody_sends_to_dead_letters(broker: Broker, name: str) -> None:
    with pytest.raises(NameReserved) as one:
        broker.send(name, "x")
    with pytest.raises(NameReserved):
        broker.send_many(name, ["x"])
    with pytest.raises(NameReserved):
        broker.configure(name, lease=5)
    assert one.value.code == "name_reserved"
    assert broker.queues() == []


def test_a_new_message_of_the_queue_is_not_among_its_dead(broker: Broker) -> None:
    bury(broker, "dead")
    broker.send("q", "alive")
    assert take(broker, "q.dlq").payload == "dead"
    assert take(broker, "q").payload == "alive"
