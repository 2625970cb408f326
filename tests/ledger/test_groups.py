"""Groups in streams: a head comes with those behind it, in order, and never apart from them."""

from __future__ import annotations

from rowq import Broker, Draft, ManualClock
from rowq.spark.ledger import Ledger
from tests.ledger.reading import STREAM, payloads, sliced
from tests.support.database import Database
from tests.support.tables import faults_of


def test_a_group_comes_as_a_whole_and_in_order(broker: Broker, ledger: Ledger, database: Database) -> None:
    for number in range(5):
        for group in "abc":
            broker.send("orders", f"{group}{number}", group=group)
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 100)
    assert payloads(ledger, 0, batch) == [f"{group}{number}" for group in "abc" for number in range(5)]
    ledger.ack(STREAM, held.epoch, batch)
    assert faults_of(database.url) == {}
    assert broker.stats("orders").blocked == 0


def test_a_group_is_never_in_two_slices(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", ["alone"] * 3)
    for group in "abcd":
        broker.send_many("orders", [f"{group}{number}" for number in range(5)], group=group)
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 100)
    for parts in (1, 2, 3, 7, 100):
        pieces = sliced(ledger, 0, batch, parts)
        assert sum(map(len, pieces)) == 23
        homes = [{payload[0] for payload in piece if payload != "alone"} for piece in pieces]
        assert sum(map(len, homes)) == 4
    assert len(sliced(ledger, 0, batch, 7)) > 2


def test_a_group_stays_in_one_slice_when_some_of_it_are_gone(broker: Broker, ledger: Ledger) -> None:
    ids = broker.send_many("orders", list(range(6)), group="g")
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 10)
    ledger.quarantine(STREAM, batch, [ids[2], ids[3]], "poison")
    broker.purge("orders", states=["dead"])
    assert sliced(ledger, 0, batch, 2) == [[0, 1, 4, 5]]
    assert sliced(ledger, 0, batch, 6) == [[0, 1, 4, 5]]


def test_what_does_not_fit_into_a_batch_follows_in_the_next(broker: Broker, ledger: Ledger, database: Database) -> None:
    broker.send_many("orders", list(range(10)), group="g")
    held = ledger.claim(STREAM, ["orders"])
    read: list[int] = []
    start = 0
    while (end := ledger.take(STREAM, held.epoch, start, 4)) != start:
        read += payloads(ledger, start, end)
        if end == 1:
            broker.send("orders", 101, group="g")
        start = end
    assert read == [*range(10), 101]
    assert faults_of(database.url) == {}


def test_a_follower_that_is_not_due_yet_ends_the_line(broker: Broker, ledger: Ledger, clock: ManualClock) -> None:
    broker.send("orders", 1, group="g")
    broker.send("orders", 2, group="g", delay=60)
    broker.send("orders", 3, group="g")
    held = ledger.claim(STREAM, ["orders"])
    first = ledger.take(STREAM, held.epoch, 0, 10)
    assert payloads(ledger, 0, first) == [1]
    assert ledger.take(STREAM, held.epoch, first, 10) == first
    clock.advance(60)
    assert payloads(ledger, first, ledger.take(STREAM, held.epoch, first, 10)) == [2, 3]


def test_nobody_else_gets_a_message_of_a_group_meanwhile(broker: Broker, ledger: Ledger) -> None:
    broker.send_many("orders", [1, 2, 3, 4], group="g")
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 2)
    broker.send("orders", 5, group="g")
    assert broker.receive("orders", max=10) == []
    ledger.ack(STREAM, held.epoch, batch)
    assert [delivery.payload for delivery in broker.receive("orders", max=10)] == [3]


def test_a_revoke_puts_a_group_back_in_order(broker: Broker, ledger: Ledger, database: Database) -> None:
    for number in range(4):
        for group in "ab":
            broker.send("orders", f"{group}{number}", group=group)
    held = ledger.claim(STREAM, ["orders"])
    ledger.take(STREAM, held.epoch, 0, 6)
    broker.send("orders", "a4", group="a")
    assert ledger.revoke(STREAM) == 6
    assert faults_of(database.url) == {}
    assert (broker.stats("orders").ready, broker.stats("orders").blocked) == (2, 7)
    read = []
    while deliveries := broker.receive("orders", max=10):
        for delivery in deliveries:
            assert delivery.attempt == 1
            read.append(delivery.payload)
            broker.ack(delivery)
    assert [payload for payload in read if payload[0] == "a"] == ["a0", "a1", "a2", "a3", "a4"]
    assert [payload for payload in read if payload[0] == "b"] == ["b0", "b1", "b2", "b3"]


def test_a_quarantined_head_does_not_let_others_pass(broker: Broker, ledger: Ledger, database: Database) -> None:
    ids = broker.send_many("orders", [0, 1, 2, 3], group="g")
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 3)
    assert ledger.quarantine(STREAM, batch, [ids[0]], "poison") == 1
    assert broker.receive("orders", max=10) == []
    assert payloads(ledger, 0, batch) == [1, 2]
    ledger.ack(STREAM, held.epoch, batch)
    assert faults_of(database.url) == {}
    assert [delivery.payload for delivery in broker.receive("orders", max=10)] == [3]


def test_a_group_whose_part_was_quarantined_can_be_revoked(broker: Broker, ledger: Ledger, database: Database) -> None:
    ids = broker.send_many("orders", [0, 1, 2, 3, 4], group="g")
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 4)
    ledger.quarantine(STREAM, batch, [ids[0], ids[2]], "poison")
    assert ledger.revoke(STREAM) == 2
    assert faults_of(database.url) == {}
    read = []
    while deliveries := broker.receive("orders", max=10):
        read += [delivery.payload for delivery in deliveries]
        broker.ack_many(deliveries)
    assert read == [1, 3, 4]


def test_a_group_that_was_quarantined_as_a_whole_goes_on(broker: Broker, ledger: Ledger, database: Database) -> None:
    ids = broker.send_many("orders", [0, 1, 2], group="g")
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 2)
    assert ledger.quarantine(STREAM, batch, ids[:2], "poison") == 2
    assert faults_of(database.url) == {}
    assert [delivery.payload for delivery in broker.receive("orders", max=10)] == [2]
    assert ledger.slices(STREAM, 0, batch, 4) == []
    assert ledger.take(STREAM, held.epoch, batch, 10) == batch


def test_many_groups_at_once(broker: Broker, ledger: Ledger, database: Database) -> None:
    for number in range(3):
        broker.send_many("orders", [Draft([group, number], group=str(group)) for group in range(1100)])
    held = ledger.claim(STREAM, ["orders"])
    batch = ledger.take(STREAM, held.epoch, 0, 20_000)
    assert ledger.streams()[0].messages == 3300
    seen: dict[int, list[int]] = {}
    for group, number in payloads(ledger, 0, batch, parts=3):
        seen.setdefault(group, []).append(number)
    assert seen == {group: [0, 1, 2] for group in range(1100)}
    ledger.ack(STREAM, held.epoch, batch)
    assert faults_of(database.url) == {}
