"""A consumer: calls a function for each message, settles what comes of it, and ends in good order."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

import rowq
from rowq import Broker, BrokerClosed, Delivery, InvalidArgument, RowqError, Settings, State
from rowq.model.queue import DeliveryMode
from rowq.worker.consumer import Consumer
from rowq.worker.plan import Process
from tests.support.database import new_database, run
from tests.support.life import depths
from tests.support.patience import eventually
from tests.worker.conftest import Away
from tests.worker.handling import Authenticator, Notes, registered
from tests.worker.moving import MovingClock

LEASE, FOR_EVER, WAIT = 600, 3_600, 60


def consume(broker: Broker, process: Process, **options: Any) -> Consumer:
    """One that soon tries again."""
    return broker.consumer("q", process, **{"retry": 0.02, **options})


def fail(delivery: Delivery) -> NoReturn:
    raise ValueError(f"no luck with {delivery.payload}")


def lazy(delivery: Delivery) -> Any:
    yield delivery


async def lazy_async(delivery: Delivery) -> Any:
    yield delivery


class Lazy:
    def __call__(self, delivery: Delivery) -> Any:
        yield delivery


@pytest.mark.parametrize("process", [lazy, lazy_async, partial(lazy), Lazy()], ids=["generator", "async generator", "partial", "object"])
def test_a_function_that_would_only_begin_is_refused(broker: Broker, process: Any) -> None:
    with pytest.raises(InvalidArgument, match="without yield"):
        broker.consumer("q", process)


@pytest.mark.parametrize("process", [lazy, lazy_async])
def test_a_message_for_which_nothing_was_done_is_not_acked(broker: Broker, process: Any) -> None:
    id = broker.send("q", "x", max_attempts=1)

    def begin(delivery: Delivery) -> object:
        return process(delivery)

    with consume(broker, begin):
        eventually(lambda: depths(broker) == {"dead": 1})
    assert "without yield" in str(broker.get(id).error)


def test_a_function_may_settle_its_message_itself(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    send(broker, 3)
    with consume(broker, broker.ack):
        eventually(lambda: set(depths(broker)) <= {"finished"})
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []


def send(broker: Broker, count: int) -> list[str]:
    with broker.producer("q", batch_size=100) as producer:
        pushed = [producer.push(number) for number in range(count)]
    return [one.result() for one in pushed]


def is_finished(broker: Broker, id: str) -> bool:
    return broker.get(id).state is State.FINISHED


def test_every_message_is_handed_to_the_function_and_stays_readable(broker: Broker) -> None:
    ids = send(broker, 25)
    notes = Notes()
    with consume(broker, notes):
        eventually(lambda: broker.stats("q").finished == 25)
    assert notes.payloads == list(range(25))
    assert {broker.get(id).outcome for id in ids} == {"acked"}
    assert broker.consumers("q") == []


def test_a_message_that_comes_later_is_handed_over_at_once(broker: Broker) -> None:
    notes = Notes()
    with consume(broker, notes) as consumer:
        registered(consumer)
        broker.send("q", "late")
        notes.await_taken(1)


def test_the_function_may_be_a_coroutine(broker: Broker) -> None:
    send(broker, 12)
    seen: list[int] = []

    async def note(delivery: Delivery) -> None:
        await asyncio.sleep(0)
        seen.append(delivery.payload)

    with consume(broker, note, concurrency=2):
        eventually(lambda: broker.stats("q").finished == 12)
    assert sorted(seen) == list(range(12))


@pytest.mark.parametrize("comes_first", ["the consumer", "the sender"])
def test_a_queue_has_the_same_defaults_however_it_comes_into_being(broker: Broker, clock: MovingClock, comes_first: str) -> None:
    notes = Notes(fail)
    consumer = broker.consumer("fresh", notes, dead_after=FOR_EVER)
    if comes_first == "the consumer":
        registered(consumer.start())
    id = broker.send("fresh", "x")
    with consumer:
        for attempt in range(1, 5):
            notes.await_taken(attempt)
            eventually(lambda: broker.get(id).state is State.SCHEDULED)
            assert len(notes.taken) == attempt
            clock.advance(60)  # the longest backoff of the defaults
        eventually(lambda: broker.stats("fresh").dead == 1)
    assert [delivery.attempt for delivery in notes.taken] == [1, 2, 3, 4, 5]
    assert broker.get(id).reason == "max_attempts_reached"
    assert broker.settings("fresh") == Settings()


def test_where_attempts_are_without_limit_the_backoff_still_applies(broker: Broker, clock: MovingClock) -> None:
    broker.configure("q", max_attempts=0)
    id = broker.send("q", "x")
    notes = Notes(fail)
    with broker.consumer("q", notes, dead_after=FOR_EVER):
        for attempt in range(1, 8):
            notes.await_taken(attempt)
            eventually(lambda: broker.get(id).state is State.SCHEDULED)
            assert len(notes.taken) == attempt
            clock.advance(60)
    assert [delivery.attempt for delivery in notes.taken[:7]] == [1, 2, 3, 4, 5, 6, 7]


def test_a_slow_consumer_keeps_no_message_from_an_idle_one(broker: Broker) -> None:
    send(broker, 10)
    authenticator, notes = Authenticator(), Notes()
    with consume(broker, authenticator):
        authenticator.await_arrivals()
        with consume(broker, notes):
            eventually(lambda: broker.stats("q").finished == 9)
        authenticator.open()
    assert len(notes.taken) == 9


def test_an_idle_consumer_stops_at_once(broker: Broker) -> None:
    consumer = broker.consumer("q", print, wait=WAIT, beat=0.05).start()
    registered(consumer)
    broker.send("q", "x")
    eventually(lambda: broker.stats("q").finished == 1)  # from now on it waits for the next
    started = time.monotonic()
    consumer.stop()
    assert time.monotonic() - started < WAIT / 2


def test_what_fails_costs_no_other_message_of_its_batch(broker: Broker) -> None:
    send(broker, 20)
    notes = Notes(lambda delivery: fail(delivery) if delivery.payload == 7 and delivery.attempt < 3 else None)
    with consume(broker, notes, batch_size=20):
        eventually(lambda: broker.stats("q").finished == 20)
    assert Counter(notes.payloads) == Counter({number: 3 if number == 7 else 1 for number in range(20)})


def test_what_always_fails_stops_no_other_message(broker: Broker) -> None:
    broker.send("q", "hopeless")
    send(broker, 10)
    with consume(broker, lambda delivery: fail(delivery) if delivery.payload == "hopeless" else None):
        eventually(lambda: depths(broker) == {"finished": 10, "dead": 1})


@pytest.mark.parametrize("mode", ["at_least_once", "at_most_once"])
def test_past_its_deadline_what_fails_is_failed(broker: Broker, clock: MovingClock, mode: DeliveryMode) -> None:
    broker.configure("q", on_exhausted="fail")
    id = broker.producer("q").push("x", deadline=3_600).result()
    with consume(broker, fail, delivery=mode, retry=600, beat=0.1, limit="deadline"):
        eventually(lambda: broker.get(id).state is State.SCHEDULED)  # it has failed once, and is to be tried again
        clock.advance(7_200)
        eventually(lambda: is_finished(broker, id))
    message = broker.get(id)
    assert message.outcome == "failed"
    assert message.error == "ValueError: no luck with x"


def test_past_its_deadline_a_message_is_still_handed_over_at_least_once(broker: Broker, clock: MovingClock) -> None:
    id = broker.producer("q").push("x", deadline=3_600).result()
    clock.advance(7_200)
    notes = Notes()
    with consume(broker, notes):
        eventually(lambda: is_finished(broker, id))
    assert notes.payloads == ["x"]


def test_past_its_deadline_a_message_is_never_handed_over_at_most_once(broker: Broker, clock: MovingClock) -> None:
    broker.configure("q", on_exhausted="fail")
    id = broker.producer("q").push("x", deadline=3_600).result()
    clock.advance(7_200)
    notes = Notes()
    with consume(broker, notes, delivery="at_most_once"):
        eventually(lambda: is_finished(broker, id))
    assert (notes.payloads, broker.get(id).outcome) == ([], "failed")


def test_what_its_sender_limits_to_one_attempt_is_handed_over_once(broker: Broker) -> None:
    id = broker.producer("q", max_attempts=1).push("x").result()
    notes = Notes(fail)
    with consume(broker, notes, delivery="at_most_once"):
        eventually(lambda: broker.get(id).state is State.DEAD)
    assert (len(notes.taken), broker.get(id).reason) == (1, "max_attempts_reached")


def test_where_a_queue_limits_the_attempts_what_fails_becomes_a_dead_letter(broker: Broker) -> None:
    broker.configure("q", max_attempts=3, backoff=[0.01])
    notes = Notes(fail)
    id = broker.send("q", "x")
    with consume(broker, notes):
        eventually(lambda: broker.stats("q").dead == 1)
    assert (broker.get(id).reason, len(notes.taken)) == ("max_attempts_reached", 3)


def test_an_operators_settings_are_left_alone(broker: Broker) -> None:
    broker.configure("q", on_exhausted="dead", keep="none", max_attempts=0)
    before = broker.settings("q")
    id = broker.send("q", "x", deadline=0.2)
    with consume(broker, fail, limit="deadline"):
        eventually(lambda: broker.stats("q").dead == 1)
    assert broker.settings("q") == before
    assert broker.get(id).reason == "deadline_exceeded"


@pytest.mark.parametrize("mode", ["at_least_once", "at_most_once"])
def test_stopping_finishes_what_is_begun_and_gives_the_rest_back_uncounted(broker: Broker, mode: DeliveryMode) -> None:
    ids = send(broker, 10)
    authenticator = Authenticator()
    consumer = consume(broker, authenticator, delivery=mode, batch_size=10).start()
    authenticator.await_arrivals()
    stopping = threading.Thread(target=consumer.stop)
    stopping.start()
    eventually(lambda: depths(broker) == {"leased": 1, "ready": 9})  # while the first is worked on
    authenticator.open()
    stopping.join(20)
    messages = [broker.get(id) for id in ids]
    assert [message.outcome for message in messages if message.state is State.FINISHED] == ["acked"]
    assert [(message.state, message.attempts) for message in messages[1:]] == [(State.READY, 0)] * 9
    assert broker.consumers("q") == []


def test_a_consumer_may_be_stopped_by_its_own_function_and_started_again(broker: Broker) -> None:
    send(broker, 5)
    notes = Notes(lambda delivery: consumer.stop() if delivery.payload == 1 else None)
    consumer = consume(broker, notes)
    consumer.run()
    assert notes.payloads == [0, 1]
    with consumer:
        notes.await_taken(5)
    assert notes.payloads == [0, 1, 2, 3, 4]


def test_a_consumer_that_ended_by_itself_can_be_started_again(file_broker: Broker) -> None:
    send(file_broker, 5)
    notes = Notes(lambda delivery: consumer.stop() if delivery.payload == 1 else None)
    consumer = consume(file_broker, notes)
    consumer.start()
    eventually(lambda: depths(file_broker) == {"finished": 2, "ready": 3})
    consumer.start()
    notes.await_taken(5)
    consumer.stop()


def test_several_may_stop_a_consumer_at_once(file_broker: Broker) -> None:
    authenticator = Authenticator()
    send(file_broker, 1)
    consumer = consume(file_broker, authenticator).start()
    authenticator.await_arrivals()
    with ThreadPoolExecutor(8) as pool:
        stopping = [pool.submit(consumer.stop) for _ in range(8)]
        authenticator.open()
        assert [one.result(timeout=20) for one in stopping] == [None] * 8


ODD = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, StopIteration]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("is_coroutine", [False, True])
def test_whatever_the_function_raises_concerns_its_message_alone(file_broker: Broker, odd: type[BaseException], is_coroutine: bool) -> None:
    def raise_once(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            raise odd

    async def await_and_raise(delivery: Delivery) -> None:
        raise_once(delivery)

    send(file_broker, 2)
    with consume(file_broker, await_and_raise if is_coroutine else raise_once):
        eventually(lambda: file_broker.stats("q").finished == 2)


def test_as_many_are_worked_on_as_the_concurrency_says(broker: Broker) -> None:
    send(broker, 8)
    together = threading.Barrier(4)
    with consume(broker, lambda delivery: together.wait(20), concurrency=4, batch_size=3):
        eventually(lambda: broker.stats("q").finished == 8)


def test_a_lease_is_extended_while_the_function_runs(broker: Broker, clock: MovingClock) -> None:
    (id,) = send(broker, 1)

    def dawdle(delivery: Delivery) -> None:
        for times in range(1, 5):
            clock.advance(LEASE * 0.4)
            eventually(lambda: [event.event for event in broker.audit(id)].count("extended") >= times)  # noqa: B023  # called at once
        assert not consumer.is_lost(delivery)

    notes = Notes(dawdle)
    consumer = consume(broker, notes, lease=LEASE, beat=0.1, dead_after=FOR_EVER)
    with consumer:
        eventually(lambda: is_finished(broker, id))
    assert [delivery.attempt for delivery in notes.taken] == [1]


def test_a_function_whose_message_is_lost_is_told(broker: Broker, clock: MovingClock) -> None:
    (id,) = send(broker, 1)
    told = threading.Event()

    def wait(delivery: Delivery) -> None:
        assert not consumer.is_lost(delivery)
        broker.delete(id)
        clock.advance(LEASE * 0.4)  # it is to be extended, which does not succeed
        eventually(lambda: consumer.is_lost(delivery))
        told.set()

    consumer = consume(broker, wait, lease=LEASE, beat=0.1, dead_after=FOR_EVER)
    with consumer:
        assert told.wait(20)


def test_what_is_done_is_settled_while_the_next_message_takes_long(broker: Broker) -> None:
    ids = send(broker, 2)
    authenticator = Authenticator()
    consumer = consume(broker, lambda delivery: authenticator(delivery) if delivery.payload == 1 else None, batch_size=2)
    with consumer:
        authenticator.await_arrivals()
        eventually(lambda: is_finished(broker, ids[0]))
        authenticator.open()


def test_a_consumer_that_was_taken_for_dead_registers_again(broker: Broker) -> None:
    notes = Notes()
    with consume(broker, notes, beat=0.05, dead_after=FOR_EVER) as consumer:
        first = registered(consumer)
        broker.unregister("q", first.id)
        second = registered(consumer, other_than=first.id)
        assert [member.id for member in broker.consumers("q")] == [second.id]
        broker.send("q", "x")
        notes.await_taken(1)


@pytest.mark.parametrize("partitioned", [False, True])
def test_several_consumers_share_the_messages(broker: Broker, partitioned: bool) -> None:
    notes = Notes()
    consumers = [consume(broker, notes, partitioned=partitioned, beat=0.1, dead_after=FOR_EVER) for _ in range(3)]
    for consumer in consumers:
        consumer.start()
    eventually(lambda: all((member := consumer.membership) and member.count == 3 for consumer in consumers))
    assert sorted(consumer.membership.index for consumer in consumers if consumer.membership) == [0, 1, 2]
    ids = send(broker, 100)
    eventually(lambda: broker.stats("q").finished == 100)
    assert sorted(notes.payloads) == list(range(100))
    assert {broker.get(id).attempts for id in ids} == {1}
    for consumer in consumers:
        consumer.stop()


def test_a_consumer_waits_for_a_server_that_is_away(away: Away, remote: Broker) -> None:
    authenticator = Authenticator()
    notes = Notes(authenticator)
    send(remote, 3)
    with consume(remote, notes, batch_size=1, beat=0.05, dead_after=0.5) as consumer:
        authenticator.await_arrivals()
        with away():
            authenticator.open()
            eventually(lambda: consumer.membership is None)
        eventually(lambda: remote.stats("q").finished == 3)
    assert notes.payloads == [0, 1, 2]


def test_a_consumer_waits_for_a_database_that_is_busy(tmp_path: Path) -> None:
    database = new_database("sqlite", tmp_path)
    notes = Notes()
    with (
        rowq.connect(f"{database.url}?timeout=0.1") as hasty,
        rowq.connect(database.url) as broker,
        consume(hasty, notes, beat=0.05, dead_after=0.5) as consumer,
        closing(database.connection()) as hog,
    ):
        registered(consumer)
        run(hog, "BEGIN IMMEDIATE")
        eventually(lambda: consumer.membership is None)
        hog.rollback()
        broker.send("q", "x")
        notes.await_taken(1)


def test_a_consumer_that_cannot_settle_at_its_end_says_so(away: Away, remote: Broker, clock: MovingClock) -> None:
    (id,) = send(remote, 1)
    authenticator = Authenticator()
    consumer = consume(remote, authenticator, lease=LEASE, beat=LEASE, dead_after=FOR_EVER).start()
    authenticator.await_arrivals()
    with away():
        authenticator.open()
        with pytest.raises(RowqError):
            consumer.stop()
    clock.advance(2 * LEASE)
    notes = Notes()
    with consume(remote, notes):
        eventually(lambda: is_finished(remote, id))
    assert [delivery.attempt for delivery in notes.taken] == [2]


def test_an_error_that_cannot_be_printed_is_an_error_like_any_other(broker: Broker) -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise TypeError

    def fail_once(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            raise Silent

    (id,) = send(broker, 1)
    with consume(broker, fail_once):
        eventually(lambda: is_finished(broker, id))
    assert [event.detail for event in broker.audit(id) if event.event == "nacked"] == ["Silent"]


def test_a_consumer_that_cannot_go_on_says_why(file_url: str) -> None:
    broker = rowq.connect(file_url)
    notes = Notes()
    consumer = consume(broker, notes, beat=0.05).start()
    registered(consumer)
    broker.close()
    with pytest.raises(BrokerClosed):
        consumer.run()


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"batch_size": 1001},
        {"concurrency": 0},
        {"lease": 0},
        {"wait": -1},
        {"delivery": "exactly_once"},
        {"limit": "patience"},
        {"partitioned": 1},
        {"beat": 0},
        {"beat": 5},
        {"dead_after": 1},
        {"remove_dead_every": 0},
        {"patience": 3},
    ],
)
def test_what_no_consumer_can_do_is_refused_at_once(file_broker: Broker, options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        file_broker.consumer("q", print, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("queue", ["", "q.dlq", "what ever"])
def test_a_consumer_needs_a_queue_and_a_function(file_broker: Broker, queue: str) -> None:
    with pytest.raises(InvalidArgument):
        file_broker.consumer(queue, print)
    with pytest.raises(InvalidArgument):
        file_broker.consumer("q", "print")  # type: ignore[arg-type]
