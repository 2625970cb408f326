"""A queue away with all that is in it."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import Broker, ManualClock, QueueNotFound, Settings, State
from rowq.engine.insights import Insights
from tests.support.harness import Harness
from tests.support.life import assert_gone, bury, drain, take


def test_a_deleted_queue_is_as_if_never_used(broker: Broker) -> None:
    broker.configure("q", lease=77, keep="body")
    finished = broker.send("q", "finished")
    drain(broker)
    dead = bury(broker, "dead")
    ready = broker.send("q", "x", key="k", group="g")
    broker.send("q", "later", delay=60)
    broker.delete_queue("q")
    assert broker.queues() == []
    for id in (finished, dead, ready):
        assert_gone(broker, id)
    with pytest.raises(QueueNotFound):
        broker.settings("q")


def test_a_deleted_queue_is_made_anew_by_use(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", lease=77, max_depth=1)
    broker.send("q", "old")
    broker.delete_queue("q")
    broker.send_many("q", ["new", "newer"])
    assert take(broker).lease_until == clock.now() + 30_000
    assert broker.settings("q") == Settings()


def test_a_deleted_queue_does_not_come_back_with_what_others_are_sent(broker: Broker) -> None:
    broker.send("q", "old")
    broker.delete_queue("q")
    broker.send("other", "new")
    assert [stats.queue for stats in broker.queues()] == ["other"]


def test_a_queue_never_used_cannot_be_deleted(broker: Broker) -> None:
    with pytest.raises(QueueNotFound) as error:
        broker.delete_queue("never")
    assert error.value.code == "queue_not_found"
    broker.send("q", "x")
    broker.delete_queue("q")
    with pytest.raises(QueueNotFound):
        broker.delete_queue("q")


def test_deleting_a_queue_leaves_others_alone(broker: Broker) -> None:
    broker.send("q", "x")
    broker.send("qq", "y")
    broker.delete_queue("q")
    assert drain(broker, "qq") == ["y"]


def test_what_is_sent_meanwhile_makes_the_queue_anew(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if senders were always at it: with each look at the messages there is one more. It ends all the same."""
    broker, sender, look = harness.broker, harness.open(), Insights.list_seqs
    broker.configure("q", max_attempts=9)
    old, new = broker.send_many("q", ["old"] * 5), list[str]()

    def look_and_send(insights: Insights, queue: str, state: State) -> Any:
        new.append(sender.send("q", "new"))
        return look(insights, queue, state)

    monkeypatch.setattr(Insights, "list_seqs", look_and_send)
    broker.delete_queue("q")
    monkeypatch.undo()
    assert [message.id for message in broker.browse("q")] == new
    assert broker.settings("q") == Settings()
    for id in old:
        assert_gone(broker, id)


def test_a_message_that_a_consumer_moves_meanwhile_is_deleted_too(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    broker, consumer, look = harness.broker, harness.open(), Insights.list_seqs
    id = broker.send("q", "x")
    deliveries = [take(broker)]

    def give_back_behind_it(insights: Insights, queue: str, state: State) -> Any:
        if state is State.LEASED and deliveries:
            consumer.nack(deliveries.pop(), counts=False)  # ready, which was looked at before
        return look(insights, queue, state)

    monkeypatch.setattr(Insights, "list_seqs", give_back_behind_it)
    broker.delete_queue("q")
    monkeypatch.undo()
    assert_gone(broker, id)
    assert broker.queues() == []


def test_what_a_process_sends_that_has_not_heard_of_it_is_found(harness: Harness) -> None:
    other, third = harness.open(), harness.open()
    harness.broker.send("q", "old")
    other.delete_queue("q")
    id = harness.broker.send("q", "new")
    assert (third.stats("q").ready, third.get(id).payload) == (1, "new")
    assert third.browse("q")[0].id == id
    third.pause("q")
    third.resume("q")
    assert third.purge("q") == 1
