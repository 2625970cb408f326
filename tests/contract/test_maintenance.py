"""maintain(): everything that time has made necessary, at once."""

from __future__ import annotations

from rowq import Broker, MaintenanceResult, ManualClock
from tests.support.life import bury, depths, drain, take


def test_there_may_be_nothing_to_do(broker: Broker) -> None:
    broker.send("q", "x")
    broker.send("q", "later", delay=60)
    assert broker.maintain() == MaintenanceResult(due=0, lease_expired=0, expired=0, retired=0)


def test_each_kind_is_counted_over_all_queues(broker: Broker, clock: ManualClock) -> None:
    broker.configure("kept", keep="body", retention=10)
    broker.send("kept", "x")
    drain(broker, "kept")
    broker.send("leased", "x")
    take(broker, "leased")
    broker.send_many("expiring", [1, 2, 3], ttl=10)
    broker.send_many("due", [1, 2], delay=10)
    clock.advance(60)
    done = broker.maintain()
    assert (done.due, done.lease_expired, done.expired) == (2, 1, 3)
    assert done.retired >= 1
    assert depths(broker, "due") == {"ready": 2}
    assert depths(broker, "leased") == {"ready": 1}
    assert depths(broker, "expiring") == {"dead": 3}
    assert depths(broker, "kept") == {}


def test_a_second_run_finds_nothing(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", dlq_ttl=10)
    bury(broker)
    broker.send_many("q", [1, 2], delay=10)
    clock.advance(60)
    broker.maintain()
    assert broker.maintain() == MaintenanceResult(due=0, lease_expired=0, expired=0, retired=0)


def test_a_message_that_was_done_in_time_does_not_expire(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", [1, 2], ttl=10)
    broker.delete(broker.send("q", 3, ttl=10))
    drain(broker)
    clock.advance(11)
    assert broker.maintain().expired == 0


def test_more_than_any_inner_batch_are_taken_up(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", list(range(2_300)), delay=10)
    clock.advance(10)
    assert broker.maintain().due == 2_300
