"""The meter counts what happened in committed transactions, and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq import Broker, Draft, ManualClock
from rowq.store.meter import OTHER, Histogram, Meter, QueueMeter
from rowq.store.transaction import Transaction
from tests.store.conftest import Connect
from tests.support.crowd import together


@pytest.fixture(params=[True, False], ids=["audited", "not audited"])
def broker(request: pytest.FixtureRequest, connect: Connect, clock: ManualClock) -> Broker:
    return connect(clock=clock, defaults=rowq.Settings(audit=request.param))


@pytest.fixture
def meter(broker: Broker) -> Meter:
    meter = Meter()
    broker._engine.attach(meter)
    return meter


def counts(meter: Meter, queue: str = "q") -> dict[str, int]:
    """What was counted of a queue, without zeros; of a dead letter only the event with its reason."""
    found = meter.read_queues().get(queue, QueueMeter()).counts
    return {event: count for event, count in found.items() if count and event != "dead"}


def seen(histogram: Histogram) -> dict[float, int]:
    """How many by upper bound, in milliseconds; those beyond the last under infinity."""
    bounds = [*histogram.bounds, float("inf")]
    return {bound: count for bound, count in zip(bounds, histogram.counts, strict=True) if count}


def test_an_engine_has_no_meter_unless_somebody_attaches_one(connect: Connect) -> None:
    engine = connect()._engine
    assert engine.meter is None
    engine.attach(meter := Meter())
    assert engine.meter is meter


def test_messages_are_counted_when_sent_alone_in_bulk_and_with_options(broker: Broker, meter: Meter) -> None:
    broker.send("q", 1)
    broker.send_many("q", [1, 2, 3])
    broker.send_many("q", [Draft(1, delay=5), Draft(2, group="g"), Draft(3, group="g"), Draft(4, headers={"a": "b"})])
    broker.send("other", 1)
    assert counts(meter) == {"enqueued": 8}
    assert counts(meter, "other") == {"enqueued": 1}


def test_a_keyed_replacement_is_counted_apart(broker: Broker, meter: Meter) -> None:
    broker.send("q", 1, key="k")
    broker.send("q", 2, key="k")
    assert counts(meter) == {"enqueued": 1, "replaced": 1}


def test_deliveries_and_acks_are_counted_alone_and_in_bulk(broker: Broker, meter: Meter) -> None:
    broker.send_many("q", [1, 2, 3, 4, 5])
    broker.ack(broker.receive("q")[0])
    assert counts(meter) == {"enqueued": 5, "delivered": 1, "acked": 1}
    assert set(broker.ack_many(broker.receive("q", max=10))) == {rowq.Outcome.DONE}
    assert counts(meter) == {"enqueued": 5, "delivered": 5, "acked": 5}


def test_acks_of_messages_with_something_hanging_on_them_are_counted_once(broker: Broker, meter: Meter) -> None:
    broker.configure("kept", keep="body")
    broker.send("q", 1, key="k", ttl=60)
    broker.send_many("kept", [1, 2])
    broker.ack_many([*broker.receive("q"), *broker.receive("kept", max=2)])
    assert counts(meter) == {"enqueued": 1, "delivered": 1, "acked": 1}
    assert counts(meter, "kept") == {"enqueued": 2, "delivered": 2, "acked": 2}


def test_a_receipt_that_settles_nothing_counts_nothing(broker: Broker, meter: Meter) -> None:
    broker.send("q", 1)
    delivery = broker.receive("q")[0]
    broker.ack_many([delivery, delivery])
    broker.nack_many([delivery])
    assert counts(meter) == {"enqueued": 1, "delivered": 1, "acked": 1}


def test_every_verdict_is_counted_under_its_own_name(broker: Broker, meter: Meter) -> None:
    broker.send_many("q", [1, 2, 3, 4])
    failed, released, rejected, later = broker.receive("q", max=4)
    broker.extend(failed, 60)
    broker.nack(failed)
    broker.nack(released, counts=False, delay=60)
    broker.reject(rejected)
    broker.reschedule(later, 60)
    assert counts(meter) == {
        "enqueued": 4,
        "delivered": 4,
        "extended": 1,
        "nacked": 1,
        "released": 1,
        "rejected": 1,
        "rescheduled": 1,
        "dead:rejected": 1,
    }


def test_a_message_that_uses_up_its_attempts_is_counted_as_dead(broker: Broker, meter: Meter) -> None:
    broker.send("q", 1, max_attempts=1)
    broker.nack(broker.receive("q")[0])
    assert counts(meter) == {"enqueued": 1, "delivered": 1, "nacked": 1, "dead:max_attempts_reached": 1}


def test_a_message_that_fails_for_good_without_dead_letters_is_counted_as_failed(broker: Broker, meter: Meter) -> None:
    broker.configure("q", on_exhausted="fail", max_attempts=1)
    broker.send("q", 1)
    broker.nack(broker.receive("q")[0])
    assert counts(meter) == {"enqueued": 1, "delivered": 1, "nacked": 1, "failed": 1}


def test_a_lease_that_runs_out_is_counted_by_maintenance_and_by_the_next_receive(broker: Broker, meter: Meter, clock: ManualClock) -> None:
    broker.send("q", 1)
    broker.receive("q", lease=1)
    clock.advance(5)
    broker.maintain()
    assert counts(meter) == {"enqueued": 1, "delivered": 1, "lease_expired": 1}
    broker.receive("q", lease=1)
    clock.advance(5)
    broker.receive("q")
    assert counts(meter) == {"enqueued": 1, "delivered": 3, "lease_expired": 2}


@pytest.mark.parametrize("take", [lambda broker: broker.maintain(), lambda broker: broker.receive("q")], ids=["maintain", "receive"])
def test_messages_past_their_time_are_counted_by_maintenance_and_on_the_way(
    broker: Broker, meter: Meter, clock: ManualClock, take: Callable[[Broker], Any]
) -> None:
    broker.send_many("q", [1, 2], ttl=10)
    clock.advance(11)
    take(broker)
    assert counts(meter) == {"enqueued": 2, "expired": 2, "dead:message_expired": 2}


def test_messages_that_expire_without_dying_are_counted_once(broker: Broker, meter: Meter, clock: ManualClock) -> None:
    broker.configure("q", on_expire="delete")
    broker.send("q", 1, ttl=10)
    clock.advance(11)
    broker.maintain()
    assert counts(meter) == {"enqueued": 1, "expired": 1}


def test_dead_letters_that_come_back_or_retire_are_counted(broker: Broker, meter: Meter, clock: ManualClock) -> None:
    broker.configure("q", dlq_ttl=60)
    broker.send_many("q", [1, 2])
    broker.reject_many(broker.receive("q", max=2))
    broker.redrive("q", limit=1)
    clock.advance(61)
    broker.maintain()
    assert counts(meter) == {"enqueued": 2, "delivered": 2, "rejected": 2, "dead:rejected": 2, "redriven": 1, "retired": 1}


def test_deliveries_of_dead_letters_are_counted_and_die_only_once(broker: Broker, meter: Meter) -> None:
    broker.send("q", 1)
    broker.reject(broker.receive("q")[0])
    broker.nack(broker.receive("q.dlq")[0], delay=0)
    broker.ack(broker.receive("q.dlq")[0])
    assert counts(meter) == {"enqueued": 1, "delivered": 3, "rejected": 1, "dead:rejected": 1, "nacked": 1, "acked": 1}


def test_a_message_that_gives_way_to_a_newer_one_is_counted(broker: Broker, meter: Meter) -> None:
    broker.send("q", 1, key="k")
    first = broker.receive("q")[0]
    broker.send("q", 2, key="k")
    broker.nack(first)
    assert counts(meter) == {"enqueued": 2, "delivered": 1, "nacked": 1, "superseded": 1}


def test_purged_and_deleted_messages_are_counted_in_every_state(broker: Broker, meter: Meter) -> None:
    broker.configure("q", keep="body")
    ids = broker.send_many("q", [1, 2, 3, 4])
    broker.ack_many(broker.receive("q", max=2))
    broker.delete(ids[0])
    broker.delete(ids[2])
    broker.purge("q", states=["ready", "finished"])
    assert counts(meter) == {"enqueued": 4, "delivered": 2, "acked": 2, "deleted": 2, "purged": 2}


def test_a_refused_send_counts_nothing(broker: Broker, meter: Meter) -> None:
    broker.configure("q", max_depth=2)
    broker.send_many("q", [1, 2])
    with pytest.raises(rowq.QueueFull):
        broker.send("q", 3)
    assert counts(meter) == {"enqueued": 2}


def test_a_transaction_that_is_rolled_back_counts_nothing(broker: Broker, meter: Meter, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.send("q", 1)
    flush = Transaction.flush

    def fail(tx: Transaction) -> None:
        flush(tx)
        raise sqlite3.OperationalError("no more room")

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "flush", fail)
        for verb in (lambda: broker.send("q", 2), lambda: broker.receive("q"), lambda: broker.purge("q")):
            with pytest.raises((rowq.RowqError, sqlite3.OperationalError)):
                verb()
    assert counts(meter) == {"enqueued": 1}
    assert meter.read_store().failures == 3


def test_a_send_inside_the_callers_transaction_is_not_counted(broker: Broker, meter: Meter, path: Path) -> None:
    connection = sqlite3.connect(path)
    broker.within(connection).send("q", 1)
    connection.commit()
    connection.close()
    assert counts(meter) == {}


def test_the_series_of_a_deleted_queue_are_gone_and_begin_anew(broker: Broker, meter: Meter) -> None:
    broker.send("q", 1)
    broker.send("stays", 1)
    broker.delete_queue("q")
    assert meter.labels() == {"stays"}
    broker.send("q", 1)
    assert counts(meter) == {"enqueued": 1}


def test_queues_beyond_the_bound_share_one_label(broker: Broker) -> None:
    broker._engine.attach(meter := Meter(max_queues=2))
    for queue in ("a", "b", "c", "d", "a"):
        broker.send(queue, 1)
    assert {label: counts(meter, label) for label in meter.read_queues()} == {
        "a": {"enqueued": 2},
        "b": {"enqueued": 1},
        OTHER: {"enqueued": 2},
    }
    assert (meter.label("a"), meter.label("c")) == ("a", OTHER)
    broker.delete_queue("a")
    broker.send("c", 1)
    assert counts(meter, "c") == {"enqueued": 1}


def waits(meter: Meter) -> dict[float, int]:
    return seen(meter.read_queues()["q"].waits)


def test_the_wait_goes_from_the_sending_to_the_delivery(broker: Broker, meter: Meter, clock: ManualClock) -> None:
    broker.send_many("q", [1, 2])
    clock.advance(0.1)
    broker.receive("q")
    clock.advance(2)
    broker.receive("q")
    assert waits(meter) == {100: 1, 2_500: 1}
    assert meter.read_queues()["q"].waits.total == 2_200


def test_the_wait_of_a_delayed_message_begins_when_it_is_due(broker: Broker, meter: Meter, clock: ManualClock) -> None:
    broker.send("q", 1, delay=60)
    clock.advance(60.02)
    broker.receive("q")
    assert waits(meter) == {25: 1}


def test_the_wait_of_a_message_that_came_back_begins_at_its_return(broker: Broker, meter: Meter, clock: ManualClock) -> None:
    broker.send_many("q", [1, 2, 3, 4])
    clock.advance(900)
    failed, released, later, rejected = broker.receive("q", max=4)
    broker.nack(failed, delay=10)
    broker.nack(released, counts=False)
    broker.reschedule(later, 10)
    broker.reject(rejected)
    clock.advance(10)
    broker.redrive("q")
    clock.advance(0.01)
    broker.receive("q", max=4)
    assert waits(meter) == {900_000: 4, 10: 3, 30_000: 1}, "only the released one waited for the ten seconds"


def test_the_wait_is_left_out_where_nobody_knows_when_it_began(connect: Connect, clock: ManualClock) -> None:
    sender = connect(clock=clock)
    sender.send("q", 1)
    sender.nack(sender.receive("q")[0], delay=0)
    broker = connect(clock=clock)
    broker._engine.attach(meter := Meter())
    broker.receive("q")
    assert waits(meter) == {}
    assert counts(meter) == {"delivered": 1}


def test_the_memory_of_returns_is_bounded(meter: Meter, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowq.store.meter.MAX_RETURNED", 3)
    broker.send_many("q", list(range(5)))
    broker.nack_many(broker.receive("q", max=5), delay=0)
    assert len(meter._returned) == 3
    broker.receive("q", max=5)
    assert not meter._returned
    assert sum(waits(meter).values()) == 5 + 3


def test_processing_goes_from_the_delivery_to_the_ack(broker: Broker, meter: Meter, clock: ManualClock) -> None:
    broker.send_many("q", [1, 2])
    broker.send("q", 3, key="k")
    deliveries = broker.receive("q", max=3, lease=60)
    clock.advance(0.5)
    broker.ack(deliveries[0])
    clock.advance(4.5)
    broker.ack_many(deliveries[1:])
    assert seen(meter.read_queues()["q"].processing) == {500: 1, 5_000: 2}


def test_transactions_are_measured_by_what_they_held(broker: Broker, meter: Meter) -> None:
    broker.send_many("q", [1, 2, 3])
    broker.ack_many(broker.receive("q", max=2))
    broker.receive("empty")
    store = meter.read_store()
    assert seen(store.calls) == {1: 4}
    assert seen(store.rows) == {0: 1, 2: 2, 5: 1}
    assert [sum(store.latency[durable].counts) for durable in (True, False)] == [1, 3]
    assert 0 < store.latency[True].total < 60


def test_calls_of_many_threads_are_all_counted(broker: Broker, meter: Meter) -> None:
    def tx() -> None:
        for number in range(20):
            broker.send("q", number)
            broker.ack(broker.receive("q")[0])

    together(*[tx] * 4)
    assert counts(meter) == {"enqueued": 80, "delivered": 80, "acked": 80}
    assert meter.read_store().rows.total == 240


def test_a_value_on_a_bound_is_below_it() -> None:
    histogram = Histogram((1, 5))
    for value in (0, 1, 2, 5, 6):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]


def test_a_clock_that_goes_back_gives_no_negative_wait(broker: Broker, meter: Meter, clock: ManualClock) -> None:
    broker.send("q", 1)
    clock.advance(-5)
    broker.ack(broker.receive("q")[0])
    assert meter.read_queues()["q"].waits.total == 0


def test_a_meter_that_fails_does_not_spoil_the_call(
    broker: Broker, meter: Meter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> Iterator[None]:
        raise ZeroDivisionError

    monkeypatch.setattr(meter, "take", fail)
    broker.send("q", 1)
    assert broker.stats("q").ready == 1
    assert "was not counted" in caplog.text
