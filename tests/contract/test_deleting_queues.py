"""A queue away with all that is in it."""

from __future__ import annotations

import pytest

from rowq import Broker, ManualClock, QueueNotFound, Settings
from tests.support.life import assert_gone, bury, depths, drain, take


def test_a_deleted_queue_is_as_if_never_used(broker: Broker) -> None:
    broker.configure("q", lease=77, keep="body")
    finished = broker.send("q", "finished")
    drain(broker)
    dead = bury(broker, "dead")
    ready = broker.send("q", "x", key="k", group="g")
    broker.send("q", "later", delay=60)
    broker.delete_queue("q")
    assert depths(broker) == {} and broker.queues() == []
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
