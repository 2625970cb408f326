"""Batches: what is in one is fixed before its number is given out, and it is settled as a whole."""

from __future__ import annotations

import pytest

from rowq import Broker, InvalidArgument, LeaseLost, ManualClock
from rowq.errors import DatabaseRestored, StreamNotFound, StreamTaken
from rowq.spark.ledger import Ledger
from tests.ledger.reading import STREAM, payloads
from tests.support.patience import eventually


def test_a_query_reads_everything_once_in_the_calls_that_spark_makes(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", list(range(10)))
    held = ledger.claim(STREAM, ["orders"])
    assert (held.acked, held.floor) == (0, 0)
    read: list[int] = []
    start = held.acked
    while (end := ledger.take(STREAM, held.epoch, start, 4)) != start:
        read += payloads(ledger, start, end, parts=2)
        ledger.ack(STREAM, held.epoch, start)  # commit() of the batch before, which Spark calls late
        start = end
    assert read == list(range(10))
    assert start == 3
    assert broker.stats("orders").leased == 0
    assert ledger.streams()[0].acked_batch == 3


def test_an_empty_queue_gives_the_number_that_was_asked_with(ledger: Ledger) -> None:
    held = ledger.claim(STREAM, ["orders"])
    assert ledger.take(STREAM, held.epoch, 0, 10) == 0
    assert ledger.slices(STREAM, 0, 0, 4) == []


def test_a_batch_is_given_again_until_it_is_settled(broker: Broker, ledger: Ledger) -> None:
    """A query may die after any step: before its log knows the batch, while it reads, before the sink has it, before the ack."""
    broker.send_many("orders", ["a", "b", "c"])
    held = ledger.claim(STREAM, ["orders"])
    assert ledger.take(STREAM, held.epoch, 0, 2) == 1
    for _ in range(3):
        held = ledger.claim(STREAM, ["orders"])
        assert held.acked == 0
        assert ledger.take(STREAM, held.epoch, 0, 500) == 1
        assert payloads(ledger, 0, 1) == ["a", "b"]
    assert ledger.take(STREAM, held.epoch, 1, 500) == 2
    held = ledger.claim(STREAM, ["orders"])
    assert held.acked == 1
    assert ledger.take(STREAM, held.epoch, 1, 500) == 2
    assert payloads(ledger, 1, 2) == ["c"]


def test_what_a_stream_holds_has_no_time_limit(broker: Broker, ledger: Ledger, clock: ManualClock) -> None:
    broker.send("orders", "plain")
    broker.send("orders", "with a deadline", deadline=60)
    broker.send("orders", "with a ttl", ttl=60)
    held = ledger.claim(STREAM, ["orders"])
    assert ledger.take(STREAM, held.epoch, 0, 10) == 1
    clock.advance(86_400 * 365)
    broker.maintain()
    assert broker.receive("orders", max=10) == []
    assert payloads(ledger, 0, 1) == ["plain", "with a deadline", "with a ttl"]
    ledger.ack(STREAM, held.epoch, 1)
    assert broker.stats("orders").leased == broker.stats("orders").dead == 0


def test_a_message_past_its_time_is_routed_out_as_in_a_receive(broker: Broker, ledger: Ledger, clock: ManualClock) -> None:
    broker.send("orders", "late", ttl=1)
    broker.send("orders", "good")
    clock.advance(2)
    held = ledger.claim(STREAM, ["orders"])
    assert ledger.take(STREAM, held.epoch, 0, 10) == 1
    assert payloads(ledger, 0, 1) == ["good"]
    assert broker.stats("orders").dead == 1


def test_what_falls_due_is_taken(broker: Broker, ledger: Ledger, clock: ManualClock) -> None:
    broker.send_many("orders", list(range(300)), delay=5)
    held = ledger.claim(STREAM, ["orders"])
    assert ledger.take(STREAM, held.epoch, 0, 1000) == 0
    clock.advance(5)
    assert ledger.take(STREAM, held.epoch, 0, 1000) == 1
    assert payloads(ledger, 0, 1) == list(range(300))


def test_several_queues_take_turns(broker: Broker, ledger: Ledger) -> None:
    for queue in ("a", "b", "c"):
        broker.send_many(queue, [queue] * 200)
    held = ledger.claim(STREAM, ["c", "a", "b"])
    assert ledger.take(STREAM, held.epoch, 0, 90) == 1
    assert {queue: payloads(ledger, 0, 1).count(queue) for queue in "abc"} == {"a": 30, "b": 30, "c": 30}


def test_a_paused_queue_gives_nothing(broker: Broker, ledger: Ledger) -> None:
    broker.send("orders", 1)
    broker.pause("orders")
    held = ledger.claim(STREAM, ["orders"])
    assert ledger.take(STREAM, held.epoch, 0, 10) == 0
    broker.resume("orders")
    assert eventually(lambda: ledger.take(STREAM, held.epoch, 0, 10)) == 1


def test_a_throughput_limit_holds_for_streams(broker: Broker, ledger: Ledger, clock: ManualClock) -> None:
    broker.configure("orders", throughput_limit=5)
    broker.send_many("orders", list(range(20)), group="g")
    broker.send_many("orders", list(range(20)))
    held = ledger.claim(STREAM, ["orders"])
    first = ledger.take(STREAM, held.epoch, 0, 100)
    assert len(payloads(ledger, 0, first)) == 5
    assert ledger.take(STREAM, held.epoch, first, 100) == first
    clock.advance(1)
    second = ledger.take(STREAM, held.epoch, first, 100)
    assert len(payloads(ledger, first, second)) == 5


def test_a_batch_ends_near_the_bytes_that_it_may_have(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", ["x" * 998] * 500)
    held = ledger.claim(STREAM, ["orders"])
    assert ledger.take(STREAM, held.epoch, 0, 500, most_bytes=200_000) == 1
    assert len(payloads(ledger, 0, 1)) == 200


def test_a_queue_that_delivers_at_most_once_is_refused(broker: Broker, ledger: Ledger) -> None:
    broker.configure("once", delivery="at_most_once")
    with pytest.raises(InvalidArgument, match="at most once"):
        ledger.claim(STREAM, ["orders", "once"])
    assert ledger.streams() == []


@pytest.mark.parametrize("name", ["", "a b", "x" * 101, "ä", 5])
def test_a_name_that_no_stream_can_have_is_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(InvalidArgument, match="not a stream name"):
        ledger.claim(name, ["orders"])


def test_bad_numbers_are_refused(ledger: Ledger) -> None:
    held = ledger.claim(STREAM, ["orders"])
    for attempt in (
        lambda: ledger.take(STREAM, held.epoch, 0, 0),
        lambda: ledger.take(STREAM, held.epoch, 0, 1, 0),
        lambda: ledger.slices(STREAM, 0, 1, 0),
        lambda: ledger.claim(STREAM, []),
        lambda: ledger.claim(STREAM, ["orders.dlq"]),
    ):
        with pytest.raises(InvalidArgument):
            attempt()


def test_a_stream_that_nobody_claimed_is_not_found(ledger: Ledger) -> None:
    for attempt in (
        lambda: ledger.take(STREAM, 1, 0, 1),
        lambda: ledger.ack(STREAM, 1, 0),
        lambda: ledger.beat(STREAM, 1),
        lambda: ledger.slices(STREAM, 0, 1, 1),
        lambda: ledger.revoke(STREAM),
    ):
        with pytest.raises(StreamNotFound, match="it was never claimed"):
            attempt()


def test_a_second_claim_ends_the_first(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", [1, 2, 3])
    first = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, first.epoch, 0, 1)
    second = ledger.claim(STREAM, ["orders"])
    assert ledger.take(STREAM, second.epoch, 0, 1) == batch
    assert ledger.take(STREAM, second.epoch, batch, 1) == batch + 1
    for attempt in (
        lambda: ledger.take(STREAM, first.epoch, 0, 1),
        lambda: ledger.take(STREAM, first.epoch, batch, 1),
        lambda: ledger.ack(STREAM, first.epoch, batch),
        lambda: ledger.beat(STREAM, first.epoch),
    ):
        with pytest.raises(StreamTaken, match="another query"):
            attempt()
    assert payloads(ledger, batch, batch + 1) == [2]


def test_a_heartbeat_is_seen(ledger: Ledger, clock: ManualClock) -> None:
    held = ledger.claim(STREAM, ["orders"])
    clock.advance(60)
    ledger.beat(STREAM, held.epoch)
    assert ledger.streams()[0].beat_at == clock.now()


def test_a_checkpoint_that_is_ahead_of_the_database_is_refused(broker: Broker, ledger: Ledger) -> None:
    broker.send("orders", 1)
    held = ledger.claim(STREAM, ["orders"])
    for attempt in (
        lambda: ledger.take(STREAM, held.epoch, 7, 1),
        lambda: ledger.ack(STREAM, held.epoch, 7),
        lambda: ledger.slices(STREAM, 0, 7, 1),
    ):
        with pytest.raises(DatabaseRestored, match="fresh checkpoint"):
            attempt()
    assert broker.stats("orders").ready == 1


def test_a_checkpoint_that_is_behind_the_ledger_is_refused(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", [1, 2, 3])
    held = ledger.claim(STREAM, ["orders"])
    for batch in range(3):
        ledger.take(STREAM, held.epoch, batch, 1)
    for attempt in (lambda: ledger.take(STREAM, held.epoch, 0, 1), lambda: ledger.slices(STREAM, 0, 1, 1)):
        with pytest.raises(LeaseLost, match="old copy"):
            attempt()
    ledger.ack(STREAM, held.epoch, 1)
    assert ledger.streams()[0].acked_batch == 2


def test_settled_batches_are_pruned(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", list(range(230)))
    held = ledger.claim(STREAM, ["orders"])
    batch = 0
    while (after := ledger.take(STREAM, held.epoch, batch, 1)) != batch:
        batch = after
    assert batch == 230
    assert ledger.streams()[0].batches == 0


def test_the_lag_tells_what_waits(broker: Broker, ledger: Ledger, clock: ManualClock) -> None:
    broker.send_many("orders", [1, 2, 3])
    broker.send("orders", 4, delay=60)
    broker.send_many("others", [1, 2], group="g")
    clock.advance(3)
    assert ledger.lag(["orders", "others"]) == {"ready": 4, "scheduled": 1, "blocked": 1, "leased": 0, "oldest_ready_ms": 3000}
    assert ledger.lag(["nobody"]) == {"ready": 0, "scheduled": 0, "blocked": 0, "leased": 0, "oldest_ready_ms": 0}


def test_an_idle_stream_is_heard_of_now_and_then(ledger: Ledger, clock: ManualClock) -> None:
    held = ledger.claim(STREAM, ["orders"])
    began = clock.now()
    clock.advance(0.9)
    ledger.take(STREAM, held.epoch, 0, 10)
    assert ledger.streams()[0].beat_at == began
    clock.advance(0.1)
    ledger.take(STREAM, held.epoch, 0, 10)
    assert ledger.streams()[0].beat_at == clock.now()
