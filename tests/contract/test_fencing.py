"""A receipt is the proof of one lease. Any other lets nobody change anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rowq import Broker, Delivery, InvalidReceipt, LeaseLost, ManualClock, Outcome, State
from tests.support.life import assert_gone, history_of, state_of, take
from tests.support.row_names import told_with
from tests.support.settling import Settle, SettleMany, every_final_settle, every_settle, every_settle_many, forged


def lost_and_taken(broker: Broker, clock: ManualClock) -> tuple[Delivery, Delivery]:
    """The delivery whose lease ran out, and the one that holds the message now."""
    broker.send("q", "x")
    stale = take(broker)
    clock.advance(31)
    return stale, take(broker)


@every_settle
def test_a_stale_receipt_settles_nothing(broker: Broker, clock: ManualClock, settle: Settle) -> None:
    stale, current = lost_and_taken(broker, clock)
    before, told = broker.get(current.id), broker.audit(current.id)
    with pytest.raises(LeaseLost) as error:
        settle(broker, stale)
    assert error.value.code == "lease_lost"
    assert broker.get(current.id) == before
    assert broker.audit(current.id) == told
    broker.ack(current)
    assert_gone(broker, current.id)


@every_settle_many
def test_a_stale_receipt_among_many_is_told_and_settles_nothing(broker: Broker, clock: ManualClock, settle_many: SettleMany) -> None:
    stale, current = lost_and_taken(broker, clock)
    before = broker.get(current.id)
    assert settle_many(broker, [stale]) == [Outcome.STALE]
    assert broker.get(current.id) == before


def test_a_stale_receipt_acks_nothing_where_others_were_just_acked(broker: Broker, clock: ManualClock) -> None:
    """Acks of a queue that is known by then may go a shorter way."""
    for _ in range(2):
        broker.send("q", "another")
        broker.ack(take(broker))
    stale, current = lost_and_taken(broker, clock)
    with pytest.raises(LeaseLost):
        broker.ack(stale)
    assert broker.ack_many([stale]) == [Outcome.STALE]
    assert state_of(broker, current.id) == State.LEASED
    broker.ack(current)
    assert_gone(broker, current.id)


@every_settle
def test_a_message_that_waits_again_is_nobodys(broker: Broker, settle: Settle) -> None:
    id = broker.send("q", "x")
    delivery = take(broker)
    broker.nack(delivery)
    before = broker.get(id)
    with pytest.raises(LeaseLost):
        settle(broker, delivery)
    assert broker.get(id) == before


@every_settle_many
def test_a_message_that_waits_again_is_stale_for_its_old_receipt(broker: Broker, settle_many: SettleMany) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    broker.nack(delivery)
    assert settle_many(broker, [delivery]) == [Outcome.STALE]


@every_settle
def test_an_acked_message_cannot_be_settled_again(broker: Broker, settle: Settle) -> None:
    id = broker.send("q", "x")
    delivery = take(broker)
    broker.ack(delivery)
    with pytest.raises(LeaseLost):
        settle(broker, delivery)
    assert history_of(broker, id) == ["enqueued", "delivered", "acked"]


@every_settle_many
def test_an_acked_message_is_not_found(broker: Broker, settle_many: SettleMany) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    broker.ack(delivery)
    assert settle_many(broker, [delivery]) == [Outcome.NOT_FOUND]


@every_final_settle
def test_a_receipt_settles_once(broker: Broker, settle: Settle) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    settle(broker, delivery)
    with pytest.raises(LeaseLost):
        settle(broker, delivery)


@every_settle
def test_a_dead_letter_cannot_be_settled_by_its_last_receipt(broker: Broker, settle: Settle) -> None:
    id = broker.send("q", "x")
    delivery = take(broker)
    broker.reject(delivery)
    with pytest.raises(LeaseLost):
        settle(broker, delivery)
    assert state_of(broker, id) == State.DEAD


@every_settle
def test_a_receipt_settles_as_well_as_its_delivery(broker: Broker, settle: Settle) -> None:
    id = broker.send("q", "x")
    settle(broker, take(broker).receipt)
    assert history_of(broker, id)[:2] == ["enqueued", "delivered"] and len(history_of(broker, id)) > 2


@every_settle
def test_a_token_that_nobody_was_given_settles_nothing(broker: Broker, settle: Settle) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    before = broker.get(delivery.id)
    with pytest.raises(LeaseLost):
        settle(broker, forged(delivery))
    assert broker.get(delivery.id) == before


@every_settle
def test_the_token_of_another_message_settles_nothing(broker: Broker, settle: Settle) -> None:
    broker.send("q", "x")
    broker.send("other", "y")
    mine, theirs = take(broker), take(broker, "other")
    before = broker.get(mine.id), broker.get(theirs.id)
    with pytest.raises(LeaseLost):
        settle(broker, forged(mine, token_of=theirs))
    assert (broker.get(mine.id), broker.get(theirs.id)) == before


@every_settle_many
def test_a_receipt_of_no_message_is_not_found(broker: Broker, settle_many: SettleMany) -> None:
    receipt = "0190163d-8694-7000-8000-0000000f4240.0123456789abcdef"
    assert settle_many(broker, [receipt]) == [Outcome.NOT_FOUND]


GARBAGE: list[Any] = ["", "x", "0190163d-8694-7000-8000-00000000002a", "a.b", "ü" * 53, "0" * 100_000, None, 5, b"bytes", object()]


@every_settle
def test_garbage_is_no_receipt(broker: Broker, settle: Settle) -> None:
    for garbage in GARBAGE:
        with told_with(garbage):
            with pytest.raises(InvalidReceipt) as error:
                settle(broker, garbage)
            assert error.value.code == "invalid_receipt"


SPOILT: list[Callable[[str], str]] = [
    str.upper,
    lambda receipt: receipt + "0",
    lambda receipt: receipt[:-1],
    lambda receipt: f" {receipt}",
    lambda receipt: receipt.replace(".", ":"),
]


@every_settle
def test_a_spoilt_receipt_settles_nothing(broker: Broker, settle: Settle) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    before = broker.get(delivery.id)
    for spoilt in (spoil(delivery.receipt) for spoil in SPOILT):
        with told_with(spoilt):
            with pytest.raises((InvalidReceipt, LeaseLost)):
                settle(broker, spoilt)
            assert broker.get(delivery.id) == before


def test_the_id_of_a_leased_message_is_no_receipt(broker: Broker) -> None:
    id = broker.send("q", "x")
    take(broker)
    with pytest.raises(InvalidReceipt):
        broker.ack(id)
    assert state_of(broker, id) == State.LEASED
