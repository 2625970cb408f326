"""What operators do to streams, and what is refused to them and to others meanwhile."""

from __future__ import annotations

import pytest

from rowq import AmbiguousId, Broker, LeaseLost, ManualClock, MessageNotFound
from rowq.errors import HeldByStream, StreamNotFound, StreamRevoked
from rowq.spark.ledger import Ledger
from tests.ledger.reading import STREAM, payloads
from tests.support.database import Database
from tests.support.tables import faults_of


def test_a_revoke_sends_everything_back_as_if_it_had_not_been_delivered(broker: Broker, ledger: Ledger, database: Database) -> None:
    broker.send_many("orders", list(range(5)))
    held = ledger.claim(STREAM, ["orders"])
    ledger.take(STREAM, held.epoch, 0, 2)
    ledger.take(STREAM, held.epoch, 1, 2)
    assert ledger.revoke(STREAM) == 2
    assert faults_of(database.url) == {}
    deliveries = broker.receive("orders", max=10)
    assert [(delivery.payload, delivery.attempt) for delivery in deliveries] == [(2, 1), (3, 1), (4, 1)]
    assert ledger.revoke(STREAM) == 0


def test_an_old_checkpoint_of_a_revoked_stream_is_refused(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", list(range(5)))
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 2)
    pieces = ledger.slices(STREAM, 0, batch, 1)
    ledger.revoke(STREAM)
    for attempt in (
        lambda: ledger.take(STREAM, held.epoch, 0, 1),
        lambda: ledger.take(STREAM, held.epoch, batch, 1),
        lambda: ledger.ack(STREAM, held.epoch, batch),
        lambda: ledger.slices(STREAM, 0, batch, 1),
        lambda: list(ledger.read(pieces[0])),
    ):
        with pytest.raises(StreamRevoked, match="fresh checkpoint"):
            attempt()
    again = ledger.claim(STREAM, ["orders"])
    with pytest.raises(StreamRevoked):
        ledger.take(STREAM, again.epoch, batch, 1)


def test_a_revoked_stream_goes_on_with_a_fresh_checkpoint_and_new_numbers(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", [1, 2, 3])
    held = ledger.claim(STREAM, ["orders"])
    old = ledger.take(STREAM, held.epoch, 0, 2)
    ledger.revoke(STREAM)
    again = ledger.claim(STREAM, ["orders"])
    assert again.acked >= again.floor > old
    batch = ledger.take(STREAM, again.epoch, again.acked, 10)
    assert batch > again.acked
    assert payloads(ledger, again.acked, batch) == [1, 2, 3]
    assert ledger.take(STREAM, again.epoch, batch, 10) == batch
    assert broker.stats("orders").leased == 0


def test_a_revoked_message_that_has_a_successor_under_its_key_gives_way(broker: Broker, ledger: Ledger, database: Database) -> None:
    broker.send("orders", "old", key="k")
    broker.send_many("orders", ["a", "b"], ttl=60, headers={"x": "y"})
    held = ledger.claim(STREAM, ["orders"])
    ledger.take(STREAM, held.epoch, 0, 10)
    broker.send("orders", "new", key="k")
    assert ledger.revoke(STREAM) == 3
    assert faults_of(database.url) == {}
    assert sorted(delivery.payload for delivery in broker.receive("orders", max=10)) == ["a", "b", "new"]


def test_thousands_of_messages_can_be_revoked(broker: Broker, ledger: Ledger, database: Database) -> None:
    broker.send_many("orders", list(range(3000)))
    held = ledger.claim(STREAM, ["orders"])
    ledger.take(STREAM, held.epoch, 0, 20_000)
    assert ledger.revoke(STREAM) == 3000
    assert faults_of(database.url) == {}
    assert broker.stats("orders").ready == 3000
    assert [delivery.payload for delivery in broker.receive("orders", max=3)] == [0, 1, 2]


def test_a_quarantined_message_is_a_dead_letter_and_the_batch_goes_on(broker: Broker, ledger: Ledger, database: Database) -> None:
    ids = broker.send_many("orders", list(range(10)))
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 10)
    before = ledger.slices(STREAM, 0, batch, 1)
    assert ledger.quarantine(STREAM, batch, [ids[3], ids[7]], "cannot be parsed") == 2
    assert payloads(ledger, 0, batch, parts=3) == [0, 1, 2, 4, 5, 6, 8, 9]
    with pytest.raises(LeaseLost, match="quarantined"):
        list(ledger.read(before[0]))
    assert ledger.quarantine(STREAM, batch, [ids[3]], "again") == 0
    ledger.ack(STREAM, held.epoch, batch)
    assert [(message.payload, message.reason, message.error) for message in broker.browse("orders", state="dead")] == [
        (3, "rejected", "cannot be parsed"),
        (7, "rejected", "cannot be parsed"),
    ]
    assert broker.redrive("orders") == 2
    assert faults_of(database.url) == {}


def test_a_message_is_quarantined_by_an_id_that_other_queues_have_too(broker: Broker, ledger: Ledger, database: Database) -> None:
    for queue in ("orders", "bills", "others"):
        broker.send(queue, queue, id="mine")
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 10)
    assert ledger.quarantine(STREAM, batch, ["mine"], "poison") == 1
    assert [broker.get("mine", queue=queue).state for queue in ("orders", "bills")] == ["dead", "ready"]
    both = ledger.claim("both", ["bills", "others"])
    batch = ledger.take("both", both.epoch, 0, 10)
    with pytest.raises(AmbiguousId, match="nothing was quarantined"):
        ledger.quarantine("both", batch, ["mine"], "poison")
    assert faults_of(database.url) == {}


def test_a_quarantined_message_that_was_redriven_is_not_settled_with_its_batch(broker: Broker, ledger: Ledger) -> None:
    ids = broker.send_many("orders", [1, 2])
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 10)
    ledger.quarantine(STREAM, batch, [ids[0]], "poison")
    broker.redrive("orders")
    (delivery,) = broker.receive("orders")
    ledger.ack(STREAM, held.epoch, batch)
    broker.ack(delivery)
    broker.send("orders", 3)
    assert ledger.take(STREAM, held.epoch, batch, 10) == batch + 1
    assert payloads(ledger, batch, batch + 1) == [3]


def test_only_messages_of_the_batch_are_quarantined(broker: Broker, ledger: Ledger) -> None:
    ids = broker.send_many("orders", [1, 2])
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 1)
    for chosen in ([ids[0], ids[1]], [ids[1]], ["nobody"]):
        with pytest.raises(MessageNotFound):
            ledger.quarantine(STREAM, batch, chosen, "poison")
    with pytest.raises(MessageNotFound):
        ledger.quarantine(STREAM, batch + 1, [ids[0]], "poison")
    with pytest.raises(StreamNotFound):
        ledger.quarantine("nobody", batch, [ids[0]], "poison")
    assert payloads(ledger, 0, batch) == [1]


def test_what_a_stream_holds_is_neither_deleted_nor_purged(broker: Broker, ledger: Ledger, clock: ManualClock) -> None:
    ids = broker.send_many("orders", [1, 2])
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 10)
    broker.send("orders", 3)
    broker.receive("orders")
    with pytest.raises(HeldByStream, match="revoke"):
        broker.delete(ids[0])
    with pytest.raises(HeldByStream, match="revoke"):
        broker.delete_queue("orders")
    assert broker.purge("orders", states=["ready", "leased"]) == 1
    clock.advance(3600)
    broker.maintain()
    assert payloads(ledger, 0, batch) == [1, 2]
    ledger.ack(STREAM, held.epoch, batch)
    broker.delete_queue("orders")
    assert broker.queues() == []


def test_operators_actions_are_written_down(broker: Broker, ledger: Ledger) -> None:
    ids = broker.send_many("orders", [1, 2])
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 10)
    ledger.quarantine(STREAM, batch, [ids[0]], "poison")
    ledger.revoke(STREAM)
    assert [event.event for event in broker.actions("orders")] == ["stream_revoked", "quarantined"]
