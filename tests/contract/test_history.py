"""What is kept of a message that was acked, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import Broker, ManualClock, State
from tests.support.life import assert_gone, depths, history_of, ids, take


def acked(broker: Broker, clock: ManualClock, keep: Any, **settings: Any) -> str:
    broker.configure("q", keep=keep, **settings)
    id = broker.send("q", {"to": "ada"}, headers={"h": "1"}, key="k", priority=2)
    clock.advance(3)
    delivery = take(broker, consumer="worker-1")
    clock.advance(4)
    broker.ack(delivery)
    return id


def test_nothing_is_kept_by_default(broker: Broker) -> None:
    id = broker.send("q", "x")
    broker.ack(take(broker))
    assert_gone(broker, id)
    assert depths(broker) == {}
    assert history_of(broker, id) == ["enqueued", "delivered", "acked"]


def test_none_keeps_only_the_audit(broker: Broker, clock: ManualClock) -> None:
    id = acked(broker, clock, "none")
    assert_gone(broker, id)
    assert history_of(broker, id) == ["enqueued", "delivered", "acked"]


def test_outcome_keeps_what_happened_without_the_payload(broker: Broker, clock: ManualClock) -> None:
    message = broker.get(acked(broker, clock, "outcome"))
    assert (message.state, message.outcome, message.payload) == (State.FINISHED, "acked", None)
    assert (message.finished_at, message.attempts, message.consumer) == (clock.now(), 1, "worker-1")
    assert message.sent_at == clock.now() - 7_000


def test_body_keeps_the_payload_too(broker: Broker, clock: ManualClock) -> None:
    message = broker.get(acked(broker, clock, "body"))
    assert (message.state, message.outcome) == (State.FINISHED, "acked")
    assert (message.payload, message.headers, message.key, message.priority) == ({"to": "ada"}, {"h": "1"}, "k", 2)


@pytest.mark.parametrize("keep", ["outcome", "body"])
def test_finished_messages_are_counted_and_browsed(broker: Broker, clock: ManualClock, keep: str) -> None:
    id = acked(broker, clock, keep)
    assert depths(broker) == {"finished": 1}
    assert ids(broker.browse("q", state="finished")) == [id]
    assert broker.browse("q") == []


@pytest.mark.parametrize("keep", ["outcome", "body"])
def test_finished_messages_go_with_retention(broker: Broker, clock: ManualClock, keep: str) -> None:
    id = acked(broker, clock, keep, retention=100)
    clock.advance(99)
    broker.maintain()
    assert broker.get(id).state == State.FINISHED
    clock.advance(2)
    assert broker.maintain().retired >= 1
    assert_gone(broker, id)
    assert depths(broker) == {}


def test_retention_is_a_week_by_default(broker: Broker, clock: ManualClock) -> None:
    id = acked(broker, clock, "body")
    clock.advance(7 * 86_400 - 1)
    broker.maintain()
    assert broker.get(id).state == State.FINISHED
    clock.advance(2)
    broker.maintain()
    assert_gone(broker, id)


def test_a_retention_of_zero_is_for_ever(broker: Broker, clock: ManualClock) -> None:
    id = acked(broker, clock, "body", retention=0)
    clock.advance(10 * 365 * 86_400)
    broker.maintain()
    assert broker.get(id).state == State.FINISHED


def test_retention_takes_nothing_that_waits(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", keep="body", retention=10)
    broker.send("q", "ready")
    broker.send("q", "later", delay=86_400)
    clock.advance(1_000)
    broker.maintain()
    assert depths(broker) == {"ready": 1, "scheduled": 1}


def test_a_finished_message_is_not_delivered_or_redriven(broker: Broker, clock: ManualClock) -> None:
    acked(broker, clock, "body")
    assert broker.receive("q") == broker.receive("q.dlq") == []
    assert broker.redrive("q") == 0


def test_an_acked_dead_letter_is_kept_like_any_other(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", keep="body")
    id = broker.send("q", "x")
    broker.reject(take(broker))
    broker.ack(take(broker, "q.dlq"))
    assert (broker.get(id).state, broker.get(id).outcome) == (State.FINISHED, "acked")


def test_messages_that_are_acked_together_are_finished_in_the_order_in_which_they_are_named(broker: Broker) -> None:
    broker.configure("q", keep="body")
    broker.send_many("q", [1, 2, 3])
    first, second, third = broker.receive("q", max=3)
    broker.ack_many([second, third, first])
    assert [message.payload for message in broker.browse("q", state="finished")] == [2, 3, 1]
