"""The spec from its beginning to its end: queued, consumed, processed or failed are ready, leased, and finished as acked or failed."""

from __future__ import annotations

import threading

import pytest

from rowq import Broker, Delivery, State
from rowq.ids import origin_of
from tests.support.patience import eventually
from tests.workers.handling import Gate, Notes, registered


def seq_of(id: str) -> int:
    origin = origin_of(id)
    assert origin is not None
    return origin.seq


def test_a_producer_pushes_each_message_at_once_unless_it_is_given_a_batch_size(broker: Broker) -> None:
    assert broker.producer("q").push("a").done()
    assert broker.stats("q").ready == 1
    gathering = broker.producer("q", batch_size=2, linger=3600)
    first = gathering.push("b")
    assert broker.stats("q").ready == 1
    gathering.push("c")
    assert broker.get(first.result(timeout=20)).payload == "b"
    gathering.close()


def test_a_consumer_pops_ten_messages_unless_it_is_given_a_batch_size(broker: Broker) -> None:
    broker.producer("q").push(0)
    broker.send_many("q", range(1, 30))
    gate = Gate()
    with broker.consumer("q", gate, wait=0.05):
        gate.await_arrivals()
        assert broker.stats("q").leased == 10
        gate.open()


def test_a_consumers_number_is_its_place_in_the_order_of_birth(broker: Broker) -> None:
    consumers = [broker.consumer("q", print, wait=0.05, beat=0.05) for _ in range(3)]
    for number, consumer in enumerate(consumers):
        consumer.start()
        assert registered(consumer).index == number
    consumers[0].stop()
    eventually(lambda: [registered(consumer).index for consumer in consumers[1:]] == [0, 1])
    for consumer in consumers[1:]:
        consumer.stop()


def test_a_heartbeat_keeps_a_consumer_alive_and_the_dead_are_removed(broker: Broker) -> None:
    silent = broker.register("q")
    with broker.consumer("q", print, beat=0.05, dead_after=0.5, remove_dead_every=2, wait=0.05) as consumer:
        first = registered(consumer)
        assert (first.index, first.count) == (1, 2)
        eventually(lambda: registered(consumer).count == 1)
        eventually(lambda: silent.id not in [member.id for member in broker.consumers("q", dead_after=3600)])
        (member,) = broker.consumers("q", dead_after=3600)
        assert member.id == first.id
        assert member.beat_at > member.born_at


def test_a_popped_message_is_consumed_by_the_consumers_uuid_and_then_processed(broker: Broker) -> None:
    id = broker.producer("q").push("x").result()
    assert broker.get(id).state is State.READY
    gate = Gate()
    with broker.consumer("q", gate, wait=0.05) as consumer:
        gate.await_arrivals()
        message = broker.get(id)
        assert (message.state, message.consumer) == (State.LEASED, registered(consumer).id)
        gate.open()
    message = broker.get(id)
    assert (message.state, message.outcome) == (State.FINISHED, "acked")


def test_an_error_before_the_deadline_makes_it_queued_again_and_after_it_failed(broker: Broker) -> None:
    id = broker.producer("q").push("x", deadline=0.5).result()
    attempts: list[int] = []

    def fail(delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        raise RuntimeError("no luck")

    with broker.consumer("q", fail, wait=0.05, retry=0.05):
        eventually(lambda: broker.get(id).state is State.FINISHED)
    assert broker.get(id).outcome == "failed"
    assert len(attempts) > 1


def test_each_consumer_takes_the_messages_of_its_number_the_oldest_first(broker: Broker) -> None:
    taken: dict[int, list[int]] = {0: [], 1: []}
    together = threading.Barrier(2)

    def note(index: int, delivery: Delivery) -> None:
        if not taken[index]:
            together.wait(20)
        taken[index].append(seq_of(delivery.id))

    consumers = [
        broker.consumer("q", lambda delivery: note(0, delivery), partitioned=True, beat=0.05, wait=0.05),
        broker.consumer("q", lambda delivery: note(1, delivery), partitioned=True, beat=0.05, wait=0.05),
    ]
    for index, consumer in enumerate(consumers):
        consumer.start()
        assert registered(consumer).index == index
    eventually(lambda: [registered(consumer).count for consumer in consumers] == [2, 2])
    known_at = max(member.beat_at for member in broker.consumers("q"))
    eventually(lambda: min(member.beat_at for member in broker.consumers("q")) > known_at + 1_000)  # nobody waits with an older share
    broker.pause("q")  # who has just looked in vain for messages of its number takes whichever come in that moment
    broker.send_many("q", range(60))
    broker.resume("q")
    eventually(lambda: broker.stats("q").finished == 60)
    for consumer in consumers:
        consumer.stop()
    assert len({*taken[0], *taken[1]}) == 60
    for index in (0, 1):
        first = taken[index][:10]
        assert [seq % 2 for seq in first] == [index] * 10
        assert first == sorted(first)


@pytest.mark.parametrize("way", ["competing", "partitioned"])
def test_what_a_consumer_that_never_works_should_take_is_taken_by_the_others(broker: Broker, way: str) -> None:
    broker.register("q", dead_after=3600)
    notes = Notes()
    with broker.consumer("q", notes, partitioned=way == "partitioned", dead_after=3600, wait=0.05) as consumer:
        assert registered(consumer).count == 2
        broker.send_many("q", range(50))
        eventually(lambda: broker.stats("q").finished == 50)
    assert sorted(notes.payloads) == list(range(50))
