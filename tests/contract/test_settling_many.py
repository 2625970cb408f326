"""Many at once: each has an outcome of its own."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import Broker, InvalidReceipt, ManualClock, Outcome
from tests.support.life import depths, take
from tests.support.settling import SETTLES_MANY, SettleMany, every_settle_many

EXPECTED: dict[str, dict[str, int]] = {
    "ack_many": {},
    "nack_many": {"scheduled": 3},
    "reject_many": {"dead": 3},
    "reschedule_many": {"scheduled": 3},
    "extend_many": {"leased": 3},
}


@pytest.mark.parametrize("verb", SETTLES_MANY)
def test_all_are_settled(broker: Broker, verb: str) -> None:
    broker.send_many("q", [1, 2, 3])
    assert SETTLES_MANY[verb](broker, broker.receive("q", max=3)) == [Outcome.DONE] * 3
    assert depths(broker) == EXPECTED[verb]


@every_settle_many
def test_none_are_settled_without_complaint(broker: Broker, settle_many: SettleMany) -> None:
    assert settle_many(broker, []) == []


@every_settle_many
def test_outcomes_come_in_the_order_of_the_call(broker: Broker, clock: ManualClock, settle_many: SettleMany) -> None:
    broker.send_many("q", ["gone", "waiting", "good", "other"])
    gone, waiting, good = broker.receive("q", max=3)
    broker.ack(gone)
    broker.nack(waiting)
    other = take(broker)
    outcomes = settle_many(broker, [waiting, good, gone, other.receipt])
    assert outcomes == [Outcome.STALE, Outcome.DONE, Outcome.NOT_FOUND, Outcome.DONE]


@every_settle_many
def test_deliveries_of_different_queues_are_settled_together(broker: Broker, settle_many: SettleMany) -> None:
    broker.send("a", 1)
    broker.send("b", 2)
    assert settle_many(broker, [take(broker, "a"), take(broker, "b")]) == [Outcome.DONE] * 2


@every_settle_many
def test_more_than_any_inner_batch_are_settled(broker: Broker, settle_many: SettleMany) -> None:
    broker.send_many("q", list(range(1_200)))
    deliveries = broker.receive("q", max=1_000) + broker.receive("q", max=1_000)
    assert settle_many(broker, deliveries) == [Outcome.DONE] * 1_200


@every_settle_many
def test_text_among_them_that_never_was_a_receipt_holds_up_nobody(broker: Broker, settle_many: SettleMany) -> None:
    broker.send("q", "x")
    assert settle_many(broker, ["nonsense", take(broker), ""]) == [Outcome.NOT_FOUND, Outcome.DONE, Outcome.NOT_FOUND]


@every_settle_many
@pytest.mark.parametrize("garbage", [None, 5, b"bytes"])
def test_what_is_no_text_among_them_is_refused_before_anything_is_settled(broker: Broker, settle_many: SettleMany, garbage: Any) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    before = broker.get(delivery.id)
    with pytest.raises(InvalidReceipt):
        settle_many(broker, [delivery, garbage])
    assert broker.get(delivery.id) == before


def test_a_delivery_named_twice_is_settled_once(broker: Broker) -> None:
    id = broker.send("q", "x")
    delivery = take(broker)
    assert broker.nack_many([delivery, delivery.receipt])[0] == Outcome.DONE
    assert depths(broker) == {"scheduled": 1}
    assert [event.event for event in broker.audit(id)].count("nacked") == 1


def test_options_hold_for_all_of_them(broker: Broker, clock: ManualClock) -> None:
    sent = broker.send_many("q", [1, 2])
    broker.nack_many(broker.receive("q", max=2), reason="boom", delay=7, counts=False)
    assert [(broker.get(id).due_at, broker.get(id).attempts) for id in sent] == [(clock.now() + 7_000, 0)] * 2
