"""Batches that are leased ahead: they wait for their turn, and settle nothing."""

from __future__ import annotations

import threading

import pytest

from rowq import Broker, InvalidArgument
from rowq.errors import DatabaseRestored, StreamRevoked, StreamTaken
from rowq.spark.ledger import Ledger
from tests.ledger.reading import STREAM, payloads
from tests.support.crowd import together


def test_a_batch_that_was_leased_ahead_comes_next_and_as_it_was(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", list(range(6)))
    held = ledger.claim(STREAM, ["orders"])
    assert ledger.take(STREAM, held.epoch, 0, 2) == 1
    assert ledger.lease_ahead(STREAM, held.epoch, 1, 3) == 2
    broker.send("orders", 6)
    assert ledger.take(STREAM, held.epoch, 1, 500) == 2
    assert payloads(ledger, 1, 2) == [2, 3, 4]
    assert ledger.take(STREAM, held.epoch, 2, 500) == 3
    assert payloads(ledger, 2, 3) == [5, 6]


def test_leasing_ahead_settles_nothing(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", list(range(6)))
    held = ledger.claim(STREAM, ["orders"])
    ledger.take(STREAM, held.epoch, 0, 2)
    ledger.lease_ahead(STREAM, held.epoch, 1, 2)
    (stream,) = ledger.streams()
    assert (stream.acked_batch, stream.batches, stream.messages) == (0, 2, 4)
    assert payloads(ledger, 0, 1) == [0, 1]
    assert ledger.take(STREAM, held.epoch, 1, 2) == 2
    (stream,) = ledger.streams()
    assert (stream.acked_batch, stream.batches, stream.messages) == (1, 1, 2)


def test_no_more_is_leased_than_was_wished(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", list(range(20)))
    held = ledger.claim(STREAM, ["orders"])
    ledger.take(STREAM, held.epoch, 0, 2)
    assert [ledger.lease_ahead(STREAM, held.epoch, 1, 2, batches=2) for _ in range(3)] == [2, 3, None]
    ledger.take(STREAM, held.epoch, 1, 2)
    assert [ledger.lease_ahead(STREAM, held.epoch, 2, 2, batches=9, enough=5) for _ in range(3)] == [4, 5, None]


def test_a_part_of_a_batch_is_left_for_later(broker: Broker, ledger: Ledger) -> None:
    """It may become a whole one until it is asked for."""
    broker.send_many("orders", [0, 1, 2, 3])
    broker.send("returns", 4)
    held = ledger.claim(STREAM, ["orders", "returns"])
    ledger.take(STREAM, held.epoch, 0, 2)
    assert ledger.lease_ahead(STREAM, held.epoch, 1, 4) == 1
    assert broker.stats("orders").leased + broker.stats("returns").leased == 2
    broker.send("returns", 5)
    assert ledger.lease_ahead(STREAM, held.epoch, 1, 4) == 2


def test_a_paused_queue_gives_nothing_ahead(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", list(range(6)))
    broker.pause("orders")
    held = ledger.claim(STREAM, ["orders"])
    assert ledger.lease_ahead(STREAM, held.epoch, 0, 2) == 0
    assert broker.stats("orders").leased == 0


def test_a_group_stays_in_its_order_over_batches(broker: Broker, ledger: Ledger) -> None:
    """Whoever is blocked behind a batch is not in the next one before that is settled."""
    broker.send_many("orders", ["a", "b", "c"], group="g")
    held = ledger.claim(STREAM, ["orders"])
    ledger.take(STREAM, held.epoch, 0, 2)
    assert payloads(ledger, 0, 1) == ["a", "b"]
    broker.send_many("orders", [0, 1, 2, 3])
    ledger.lease_ahead(STREAM, held.epoch, 1, 4)
    assert payloads(ledger, 1, 2) == [0, 1, 2, 3]
    ledger.take(STREAM, held.epoch, 1, 4)
    assert ledger.take(STREAM, held.epoch, 2, 4) == 3
    assert payloads(ledger, 2, 3) == ["c"]


def test_who_asks_too_late_is_given_nothing(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", list(range(9)))
    held = ledger.claim(STREAM, ["orders"])
    for batch in range(3):
        ledger.take(STREAM, held.epoch, batch, 2)
    assert ledger.lease_ahead(STREAM, held.epoch, 1, 2, batches=5) is None
    assert ledger.streams()[0].next_batch == 4


def test_what_was_leased_ahead_outlives_its_holder(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", list(range(4)))
    held = ledger.claim(STREAM, ["orders"])
    ledger.take(STREAM, held.epoch, 0, 2)
    ledger.lease_ahead(STREAM, held.epoch, 1, 2)
    held = ledger.claim(STREAM, ["orders"])
    read: list[int] = []
    after = held.acked
    while (upto := ledger.take(STREAM, held.epoch, after, 50)) != after:
        read += payloads(ledger, after, upto)
        after = upto
    assert read == [0, 1, 2, 3]
    assert broker.stats("orders").leased == 0


def test_a_revoke_gives_back_what_was_leased_ahead(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", list(range(4)))
    held = ledger.claim(STREAM, ["orders"])
    ledger.take(STREAM, held.epoch, 0, 2)
    ledger.lease_ahead(STREAM, held.epoch, 1, 2)
    assert ledger.revoke(STREAM) == 4
    assert broker.stats("orders").ready == 4
    with pytest.raises(StreamRevoked):
        ledger.lease_ahead(STREAM, held.epoch, 1, 2)


def test_whoever_may_not_take_may_not_lease_ahead(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", list(range(4)))
    old = ledger.claim(STREAM, ["orders"])
    new = ledger.claim(STREAM, ["orders"])
    with pytest.raises(StreamTaken):
        ledger.lease_ahead(STREAM, old.epoch, 0, 1)
    with pytest.raises(DatabaseRestored):
        ledger.lease_ahead(STREAM, new.epoch, 7, 1)
    with pytest.raises(InvalidArgument, match="between 1 and"):
        ledger.lease_ahead(STREAM, new.epoch, 0, 0)
    with pytest.raises(InvalidArgument, match="at least 1 byte"):
        ledger.lease_ahead(STREAM, new.epoch, 0, 1, 0)
    with pytest.raises(InvalidArgument, match="at least 1 batch"):
        ledger.lease_ahead(STREAM, new.epoch, 0, 1, batches=0)
    assert broker.stats("orders").ready == 4


def test_beside_one_who_takes_every_message_is_in_one_batch(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", list(range(200)))
    held = ledger.claim(STREAM, ["orders"])
    at, read = [0], list[int]()
    is_over = threading.Event()

    def lease() -> None:
        while not is_over.is_set():
            ledger.lease_ahead(STREAM, held.epoch, at[0], 7, batches=2)

    def take() -> None:
        try:
            while (upto := ledger.take(STREAM, held.epoch, at[0], 7)) != at[0]:
                read.extend(payloads(ledger, at[0], upto))
                at[0] = upto
        finally:
            is_over.set()

    together(lease, take, within=60)
    assert sorted(read) == list(range(200))
    assert ledger.streams()[0].batches == 0
