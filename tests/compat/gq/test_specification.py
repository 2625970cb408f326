"""The spec from its beginning to its end: queued, consumed, processed or failed are ready, leased, and finished as acked or failed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import rowq
from rowq import Broker, Delivery, InvalidArgument, State
from rowq.compat.gq import Client
from rowq.engine.verbs import Verbs
from rowq.ids import origin_of
from tests.support.database import Database
from tests.support.patience import eventually
from tests.worker.handling import Authenticator, Notes, registered
from tests.worker.moving import MovingClock

FOR_EVER = 3_600


def beat_at(broker: Broker, id: str) -> int:
    return next((member.beat_at for member in broker.consumers("q", dead_after=FOR_EVER) if member.id == id), 0)


def seq_of(id: str) -> int:
    origin = origin_of(id)
    assert origin is not None
    return origin.seq


def test_a_producer_pushes_each_message_at_once_unless_it_is_given_a_batch_size(client: Client, broker: Broker) -> None:
    assert client.new_producer().push("a").done()
    assert broker.stats("q").ready == 1
    gathering = client.new_producer(batch_size=2)
    first, second = gathering.push("b"), gathering.push("c")
    assert [broker.get(one.result(timeout=20)).payload for one in (first, second)] == ["b", "c"]
    gathering.close()


def test_a_consumer_pops_ten_messages_unless_it_is_given_a_batch_size(client: Client, broker: Broker) -> None:
    client.new_producer().push(0)
    broker.send_many("q", range(1, 30))
    authenticator = Authenticator()
    with client.new_consumer().worker(authenticator):
        authenticator.await_arrivals()
        assert broker.stats("q").leased == 10
        authenticator.open()


def test_a_consumers_number_is_its_place_in_the_order_of_birth(client: Client) -> None:
    consumers = [client.new_consumer(beat=0.05, dead_after=FOR_EVER).worker(print) for _ in range(3)]
    for number, consumer in enumerate(consumers):
        consumer.start()
        assert registered(consumer).index == number
    consumers[0].stop()
    eventually(lambda: [registered(consumer).index for consumer in consumers[1:]] == [0, 1])
    for consumer in consumers[1:]:
        consumer.stop()


def test_a_heartbeat_keeps_a_consumer_alive_and_the_dead_are_removed(client: Client, broker: Broker, moving: MovingClock) -> None:
    silent = broker.register("q", dead_after=FOR_EVER)
    with client.new_consumer(beat=0.05, dead_after=600, remove_dead_every=2).worker(print) as consumer:
        first = registered(consumer)
        assert (first.index, first.count) == (1, 2)
        for _ in range(2):  # 800 seconds in which the one beats, and the other does not
            moving.advance(400)
            moved_at = moving.now()
            eventually(lambda: beat_at(broker, first.id) > moved_at)  # noqa: B023  # called at once
        eventually(lambda: registered(consumer).count == 1)
        eventually(lambda: silent.id not in [member.id for member in broker.consumers("q", dead_after=FOR_EVER)])
        (member,) = broker.consumers("q", dead_after=FOR_EVER)
        assert member.id == first.id
        assert member.beat_at > member.born_at


def test_a_popped_message_is_consumed_by_the_consumers_uuid_and_then_processed(client: Client, broker: Broker) -> None:
    id = client.new_producer().push("x").result()
    assert broker.get(id).state is State.READY
    authenticator = Authenticator()
    with client.new_consumer().worker(authenticator) as consumer:
        authenticator.await_arrivals()
        message = broker.get(id)
        assert (message.state, message.consumer) == (State.LEASED, registered(consumer).id)
        authenticator.open()
    message = broker.get(id)
    assert (message.state, message.outcome) == (State.FINISHED, "acked")


def test_an_error_before_the_deadline_makes_it_queued_again_and_after_it_failed(
    client: Client, broker: Broker, moving: MovingClock
) -> None:
    id = client.new_producer().push("x", deadline=3_600).result()
    attempts: list[int] = []

    def fail(delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        raise RuntimeError("no luck")

    with client.new_consumer(beat=0.1, retry=600).worker(fail):
        eventually(lambda: broker.get(id).state is State.SCHEDULED)
        moving.advance(7_200)
        eventually(lambda: broker.get(id).state is State.FINISHED)
    assert broker.get(id).outcome == "failed"
    assert attempts == [1, 2]


def test_each_consumer_takes_the_messages_of_its_number_the_oldest_first(
    client: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: dict[int, list[int]] = {0: [], 1: []}
    together = threading.Barrier(2)
    may_look, asked = threading.Event(), set[Any]()
    receive = Verbs.receive

    def look_when_told(verbs: Verbs, *options: Any, **more: Any) -> Any:
        """A consumer that found none of its own share takes any that come in that moment: so none looks before all are there."""
        asked.add(options[-1])
        assert may_look.wait(20)
        return receive(verbs, *options, **more)

    def note(index: int, delivery: Delivery) -> None:
        if not taken[index]:
            together.wait(20)
        taken[index].append(seq_of(delivery.id))

    consumers = [
        client.new_consumer(partitioned=True, beat=0.05, dead_after=FOR_EVER).worker(lambda delivery: note(0, delivery)),
        client.new_consumer(partitioned=True, beat=0.05, dead_after=FOR_EVER).worker(lambda delivery: note(1, delivery)),
    ]
    for index, consumer in enumerate(consumers):
        consumer.start()
        assert registered(consumer).index == index
    eventually(lambda: [registered(consumer).count for consumer in consumers] == [2, 2])
    monkeypatch.setattr(Verbs, "receive", look_when_told)
    eventually(lambda: asked == {(0, 2), (1, 2)})
    broker.send_many("q", range(60))
    may_look.set()
    eventually(lambda: broker.stats("q").finished == 60)
    for consumer in consumers:
        consumer.stop()
    assert len({*taken[0], *taken[1]}) == 60
    for index in (0, 1):
        first = taken[index][:10]
        assert [seq % 2 for seq in first] == [index] * 10
        assert first == sorted(first)


@pytest.mark.parametrize("way", ["competing", "partitioned"])
def test_what_a_consumer_that_never_works_should_take_is_taken_by_the_others(client: Client, broker: Broker, way: str) -> None:
    broker.register("q", dead_after=3600)
    notes = Notes()
    with client.new_consumer(partitioned=way == "partitioned", dead_after=3600).worker(notes) as consumer:
        assert registered(consumer).count == 2
        broker.send_many("q", range(50))
        eventually(lambda: broker.stats("q").finished == 50)
    assert sorted(notes.payloads) == list(range(50))


def test_consume_passes_the_payload_until_it_is_stopped(client: Client, broker: Broker) -> None:
    pushed = [client.new_producer().push({"number": number}) for number in range(3)]
    consumer, taken = client.new_consumer(), list[Any]()

    def process(payload: Any) -> None:
        taken.append(payload)
        if len(taken) == 3:
            consumer.stop()

    consumer.consume(process)
    assert taken == [{"number": 0}, {"number": 1}, {"number": 2}]
    assert {broker.get(one.result()).outcome for one in pushed} == {"acked"}


def test_a_queue_that_was_made_otherwise_keeps_the_promises_too(database: Database) -> None:
    with rowq.connect(database.url) as broker:
        broker.send("q", "sent by another program")
        assert broker.settings("q").max_attempts is None
        with Client(database.url, queue="q", delivery="at_most_once"):
            settings = broker.settings("q")
        assert (settings.max_attempts, settings.on_exhausted, settings.keep, settings.delivery) == (0, "fail", "outcome", "at_most_once")


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"beat": 0}, {"patience": 3}])
def test_a_wrong_option_is_an_error_at_once(client: Client, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        client.new_consumer(**options)
    with pytest.raises(InvalidArgument):
        client.new_consumer().consume("print")  # type: ignore[arg-type]
