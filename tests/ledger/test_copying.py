"""A copy takes along what a stream holds as it takes along what any consumer holds: as if it had not been delivered."""

from __future__ import annotations

import pytest

import rowq
from rowq import Broker, Draft
from rowq.spark.ledger import Ledger
from tests.ledger.reading import STREAM, payloads
from tests.support.database import Database
from tests.transfer.journey import copy

pytestmark = pytest.mark.one_of("database")


def test_what_a_stream_holds_arrives_ready_and_in_order(broker: Broker, ledger: Ledger, database: Database) -> None:
    broker.send_many("orders", ["a", "b"])
    broker.send_many("orders", [Draft(number, group="g") for number in range(4)])
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 5)
    elsewhere = database.elsewhere()
    (report,) = copy(database.url, elsewhere.url)
    assert report.copied == 6
    with rowq.connect(elsewhere.url, maintenance=False) as target:
        target.resume("orders")
        read = []
        while deliveries := target.receive("orders", max=10):
            assert {delivery.attempt for delivery in deliveries} == {1}
            read += [delivery.payload for delivery in deliveries]
            target.ack_many(deliveries)
        assert read == ["a", "b", 0, 1, 2, 3]
        assert target.streams() == []
    assert payloads(ledger, 0, batch) == ["a", "b", 0, 1, 2]


def test_a_copy_that_removes_leaves_a_batch_to_its_stream(broker: Broker, ledger: Ledger, database: Database) -> None:
    broker.send_many("orders", [1, 2, 3])
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 2)
    (report,) = copy(database.url, database.elsewhere().url, remove=True)
    assert (report.copied, report.removed) == (3, 1)
    assert payloads(ledger, 0, batch) == [1, 2]
    ledger.ack(STREAM, held.epoch, batch)
    assert broker.stats("orders").leased == 0
