"""What an ack of a whole batch leaves behind: nothing, or what the queue keeps of it."""

from __future__ import annotations

from rowq import Broker
from rowq.spark.ledger import Ledger
from tests.ledger.reading import STREAM, payloads
from tests.support.database import Database
from tests.support.tables import faults_of


def test_thousands_of_messages_are_taken_and_settled_as_one(broker: Broker, ledger: Ledger, database: Database) -> None:
    broker.send_many("orders", list(range(2500)))
    broker.send_many("orders", list(range(2500, 5000)), priority=1)
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 20_000)
    assert batch == 1
    assert ledger.streams()[0].messages == 5000
    slices = ledger.slices(STREAM, 0, batch, parts=4)
    assert [piece.count for piece in slices] == [1250] * 4
    assert payloads(ledger, 0, batch, parts=4) == [*range(2500, 5000), *range(2500)]
    assert ledger.take(STREAM, held.epoch, batch, 20_000) == batch
    stats = broker.stats("orders")
    assert (stats.ready, stats.leased, stats.finished) == (0, 0, 0)
    assert faults_of(database.url) == {}


def test_a_queue_with_history_and_audit_tells_of_the_stream(broker: Broker, ledger: Ledger, database: Database) -> None:
    broker.configure("orders", keep="body")
    id = broker.send("orders", 1, key="k", headers={"a": "b"}, ttl=60)
    held = ledger.claim(STREAM, ["orders"])
    ledger.ack(STREAM, held.epoch, ledger.take(STREAM, held.epoch, 0, 10))
    message = broker.get(id)
    assert (message.state, message.outcome, message.consumer) == ("finished", "acked", f"stream:{STREAM}")
    assert [(event.event, event.actor) for event in broker.audit(id)][1:] == [
        ("delivered", f"stream:{STREAM}"),
        ("acked", f"stream:{STREAM}"),
    ]
    assert faults_of(database.url) == {}


def test_many_messages_that_something_hangs_on_are_settled_together(broker: Broker, ledger: Ledger, database: Database) -> None:
    broker.configure("orders", keep="outcome")
    for number in range(50):
        broker.send("orders", number, key=str(number), ttl=60, id=f"own-{number}")
    broker.send_many("plain", list(range(50)))
    held = ledger.claim(STREAM, ["orders", "plain"])
    ledger.ack(STREAM, held.epoch, ledger.take(STREAM, held.epoch, 0, 1000))
    assert (broker.stats("orders").finished, broker.stats("orders").leased, broker.stats("plain").leased) == (50, 0, 0)
    assert faults_of(database.url) == {}


def test_a_batch_is_shown_as_leased_by_its_stream(broker: Broker, ledger: Ledger) -> None:
    ids = broker.send_many("orders", ["a", "b"])
    held = ledger.claim(STREAM, ["orders"])
    ledger.take(STREAM, held.epoch, 0, 10)
    assert broker.get(ids[0]).consumer == f"stream:{STREAM}"
    first = broker.browse("orders", state="leased", limit=1)
    rest = broker.browse("orders", state="leased", after=first[0].cursor)
    assert [(message.id, message.consumer) for message in (*first, *rest)] == [(id, f"stream:{STREAM}") for id in ids]
