"""One message: what its options say, and where it is afterwards."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowq import Broker, ManualClock, QueueNotFound, State, exponential
from tests.support.life import depths, take


def test_a_sent_message_is_ready(broker: Broker, clock: ManualClock) -> None:
    message = broker.get(broker.send("q", "hello"))
    assert (message.state, message.queue, message.payload) == (State.READY, "q", "hello")
    assert (message.attempts, message.sent_at, message.priority) == (0, clock.now(), 0)


def test_a_message_says_nothing_of_what_was_not_given(broker: Broker) -> None:
    message = broker.get(broker.send("q", "hello"))
    assert message.headers == {}
    absent = (message.key, message.group, message.deadline, message.expires_at, message.lease_until, message.consumer)
    assert absent == (None,) * 6
    assert (message.reason, message.error, message.died_at, message.outcome, message.finished_at) == (None,) * 5


def test_options_are_kept_with_the_message(broker: Broker, clock: ManualClock) -> None:
    backoff = exponential(2, factor=3)
    id = broker.send(
        "q",
        "hello",
        key="k",
        group="g",
        priority=7,
        ttl=timedelta(minutes=1),
        deadline=90.5,
        max_attempts=3,
        backoff=backoff,
        headers={"trace": "abc", "ünï": "cödé"},
        keys_if_undelivered=[["lost", 1], "plain"],
    )
    message = broker.get(id)
    assert (message.key, message.group, message.priority) == ("k", "g", 7)
    assert (message.ttl_ms, message.expires_at) == (60_000, clock.now() + 60_000)
    assert message.deadline == clock.now() + 90_500
    assert (message.max_attempts, message.backoff) == (3, backoff)
    assert message.headers == {"trace": "abc", "ünï": "cödé"}
    assert message.keys_if_undelivered == [["lost", 1], ["plain"]]


def test_a_delivery_carries_what_was_sent(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "hello", key="k", group="g", priority=7, headers={"trace": "abc"})
    sent_at = clock.now()
    clock.advance(5)
    delivery = take(broker)
    assert (delivery.id, delivery.queue, delivery.payload, delivery.attempt) == (id, "q", "hello", 1)
    assert (delivery.key, delivery.group, delivery.priority, delivery.headers) == ("k", "g", 7, {"trace": "abc"})
    assert delivery.sent_at == sent_at


def test_a_queue_exists_by_use(broker: Broker) -> None:
    broker.send("new", "hello")
    assert [stats.queue for stats in broker.queues()] == ["new"]
    broker.settings("new")


def test_looking_makes_no_queue(broker: Broker) -> None:
    assert broker.receive("never") == []
    for look in (broker.browse, broker.stats, broker.settings):
        with pytest.raises(QueueNotFound):
            look("never")
    assert broker.queues() == []


@pytest.mark.parametrize("name", ["a", "A-Z_0.9", "x" * 64, "dlq", "dlq.orders", "0"])
def test_a_queue_may_have_any_plain_name(broker: Broker, name: str) -> None:
    broker.send(name, "hello")
    assert take(broker, name).queue == name


def test_names_that_differ_in_case_are_different_queues(broker: Broker) -> None:
    broker.send("q", "small")
    broker.send("Q", "large")
    assert (take(broker, "q").payload, take(broker, "Q").payload) == ("small", "large")


def test_queues_do_not_mix(broker: Broker) -> None:
    broker.send("a", "to a")
    broker.send("b", "to b")
    assert [delivery.payload for delivery in broker.receive("b", max=10)] == ["to b"]
    assert depths(broker, "a") == {"ready": 1}


def test_none_as_an_option_is_no_option(broker: Broker) -> None:
    id = broker.send(
        "q",
        "hello",
        key=None,
        group=None,
        ttl=None,
        deadline=None,
        max_attempts=None,
        backoff=None,
        headers=None,
        keys_if_undelivered=None,
        id=None,
    )
    assert broker.get(id).headers == {}
    assert take(broker).id == id
