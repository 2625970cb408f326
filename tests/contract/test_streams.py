"""Streams as operators see them: looked at, revoked, quarantined. Who takes the batches talks to the database itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rowq import Broker, HeldByStream, InvalidArgument, ManualClock, MessageNotFound, StreamNotFound, StreamRevoked
from rowq.spark.ledger import Ledger, open_ledger
from tests.support.harness import Harness

STREAM = "orders-to-lake"


@pytest.fixture
def ledger(harness: Harness) -> Iterator[Ledger]:
    with open_ledger(harness.url, clock=harness.clock) as ledger:
        yield ledger


def test_streams_are_listed_with_what_they_hold(broker: Broker, ledger: Ledger, clock: ManualClock) -> None:
    assert broker.streams() == []
    broker.send_many("orders", [1, 2, 3])
    held = ledger.claim(STREAM, ["orders", "returns"])
    ledger.take(STREAM, held.epoch, 0, 2)
    (stream,) = broker.streams()
    assert (stream.name, stream.queues, stream.epoch) == (STREAM, ["orders", "returns"], 1)
    assert (stream.acked_batch, stream.next_batch, stream.floor, stream.batches, stream.messages) == (0, 2, 0, 1, 2)
    assert stream.created_at == stream.beat_at == clock.now()


def test_a_revoked_stream_gives_its_messages_back(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", [1, 2, 3])
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 2)
    assert broker.revoke_stream(STREAM) == 2
    assert [(delivery.payload, delivery.attempt) for delivery in broker.receive("orders", max=10)] == [(1, 1), (2, 1), (3, 1)]
    with pytest.raises(StreamRevoked):
        ledger.take(STREAM, held.epoch, batch, 10)


def test_a_quarantined_message_becomes_a_dead_letter(broker: Broker, ledger: Ledger) -> None:
    ids = broker.send_many("orders", [1, 2, 3])
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 10)
    assert broker.quarantine(STREAM, batch, [ids[1]], reason="cannot be parsed") == 1
    (message,) = broker.browse("orders", state="dead")
    assert (message.payload, message.error) == (2, "cannot be parsed")
    ledger.ack(STREAM, held.epoch, batch)
    assert broker.stats("orders").leased == 0


def test_nothing_is_quarantined_when_one_is_not_in_the_batch(broker: Broker, ledger: Ledger) -> None:
    ids = broker.send_many("orders", [1, 2])
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 1)
    with pytest.raises(MessageNotFound, match="nothing was quarantined"):
        broker.quarantine(STREAM, batch, ids)
    assert broker.stats("orders").dead == 0


def test_a_message_that_a_stream_holds_is_not_deleted(broker: Broker, ledger: Ledger) -> None:
    (id,) = broker.send_many("orders", [1])
    held = ledger.claim(STREAM, ["orders"])
    ledger.take(STREAM, held.epoch, 0, 1)
    with pytest.raises(HeldByStream, match=STREAM):
        broker.delete(id)
    with pytest.raises(HeldByStream, match=STREAM):
        broker.delete_queue("orders")
    assert broker.purge("orders", states=["leased"]) == 0
    assert broker.get(id).consumer == f"stream:{STREAM}"


def test_a_stream_that_is_not_there_is_not_found(broker: Broker) -> None:
    with pytest.raises(StreamNotFound):
        broker.revoke_stream("nobody")
    with pytest.raises(StreamNotFound):
        broker.quarantine("nobody", 1, ["x"])


@pytest.mark.parametrize(
    ("stream", "batch", "ids"),
    [("a b", 1, ["x"]), ("", 1, ["x"]), (STREAM, 0, ["x"]), (STREAM, "1", ["x"]), (STREAM, 1, "x"), (STREAM, 1, ["x"] * 3 + [5])],
)
def test_bad_arguments_are_refused(broker: Broker, stream: str, batch: int, ids: list[str]) -> None:
    with pytest.raises(InvalidArgument):
        broker.quarantine(stream, batch, ids)


def test_too_many_ids_at_once_are_refused(broker: Broker) -> None:
    with pytest.raises(InvalidArgument, match="1000"):
        broker.quarantine(STREAM, 1, [str(number) for number in range(1001)])
