"""What was answered is there when the database is opened again."""

from __future__ import annotations

import pytest

from rowq import Broker, BrokerClosed, IdTaken
from tests.support.harness import Harness
from tests.support.life import bury, depths, drain, history_of, one_of_each, take


def test_every_state_is_kept(harness: Harness) -> None:
    each = one_of_each(harness.broker)
    before = [harness.broker.get(id) for id in each.values()]
    told = [harness.broker.audit(id) for id in each.values()]
    broker = harness.reopen()
    assert [broker.get(id) for id in each.values()] == before
    assert [broker.audit(id) for id in each.values()] == told
    assert depths(broker) == dict.fromkeys(each, 1)


def test_a_receipt_is_valid_after_reopening(harness: Harness) -> None:
    harness.broker.send("q", "x")
    delivery = take(harness.broker)
    broker = harness.reopen()
    broker.ack(delivery)
    assert depths(broker) == {}


def test_a_lease_runs_on_while_closed(harness: Harness) -> None:
    harness.broker.send("q", "x")
    take(harness.broker)
    harness.clock.advance(31)
    assert take(harness.reopen()).attempt == 2


def test_a_delay_runs_on_while_closed(harness: Harness) -> None:
    harness.broker.send("q", "x", delay=60)
    harness.clock.advance(60)
    assert take(harness.reopen()).payload == "x"


def test_an_id_is_never_given_again_after_reopening(harness: Harness) -> None:
    seen = set()
    for _ in range(3):
        seen.add(harness.broker.send("q", "x"))
        drain(harness.broker)
        harness.reopen()
    assert len(seen) == 3


def test_own_ids_keys_and_groups_are_kept(harness: Harness) -> None:
    id = harness.broker.send("q", "old", key="k", id="mine")
    harness.broker.send_many("q", ["a", "b"], group="g")
    broker = harness.reopen()
    with pytest.raises(IdTaken):
        broker.send("q", "x", id="mine")
    assert broker.send("q", "new", key="k") == id
    assert depths(broker) == {"ready": 2, "blocked": 1}
    assert drain(broker) == ["new", "a", "b"]


def test_undelivered_keys_are_kept(harness: Harness) -> None:
    bury(harness.broker, "x", keys_if_undelivered=[["lost", 1]])
    (entry,) = harness.reopen().keys()
    assert (entry.key, entry.value) == (["lost", 1], "x")


def test_order_and_priority_are_kept(harness: Harness) -> None:
    harness.broker.send_many("q", ["a", "b"])
    harness.broker.send("q", "urgent", priority=1)
    assert drain(harness.reopen()) == ["urgent", "a", "b"]


def test_two_brokers_on_one_database_see_one_queue(harness: Harness) -> None:
    first, second = harness.broker, harness.open()
    id = first.send("q", "x")
    delivery = take(second)
    assert first.receive("q") == []
    first.ack(delivery)
    assert history_of(second, id) == ["enqueued", "delivered", "acked"]


def test_a_closed_broker_does_nothing(harness: Harness) -> None:
    broker: Broker = harness.broker
    broker.send("q", "x")
    broker.close()
    for call in (lambda: broker.send("q", "y"), lambda: broker.receive("q"), lambda: broker.stats("q"), broker.queues):
        with pytest.raises(BrokerClosed) as error:
            call()
        assert error.value.code == "broker_closed"
    assert depths(harness.reopen()) == {"ready": 1}


def test_closing_twice_is_no_error(harness: Harness) -> None:
    harness.broker.close()
    harness.broker.close()
