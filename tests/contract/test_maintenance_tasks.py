"""run_maintenance(): one part of what time has made necessary, and nothing else."""

from __future__ import annotations

import pytest

from rowq import Broker, InvalidArgument, ManualClock, NotFound
from rowq.engine.maintenance import TASKS
from tests.support.life import bury, depths, take

NAMES = [task.name for task in TASKS]


@pytest.mark.parametrize("name", NAMES)
def test_there_may_be_nothing_to_do(broker: Broker, name: str) -> None:
    assert broker.run_maintenance(name) == (name == "optimize")


def test_there_are_those_that_are_listed_and_no_others(broker: Broker) -> None:
    assert {"stale", "expired", "expired-dlq", "failed", "failed-dlq", "optimize", "depth"} < set(NAMES)
    for name in ("nonsense", "", "a/b", "%2e", "Stale"):
        with pytest.raises(NotFound):
            broker.run_maintenance(name)
    with pytest.raises(InvalidArgument):
        broker.run_maintenance(7)  # type: ignore[arg-type]


def test_each_does_its_own_part(broker: Broker, clock: ManualClock) -> None:
    broker.configure("dying", dlq_ttl=30)
    bury(broker, queue="dying")
    broker.send("leased", "x")
    take(broker, "leased")
    broker.send_many("expiring", [1, 2, 3], ttl=10)
    broker.send_many("due", [1, 2], delay=10)
    clock.advance(60)
    assert broker.run_maintenance("depth") == 6
    assert broker.run_maintenance("due") == 2 and depths(broker, "due") == {"ready": 2}
    assert broker.run_maintenance("stale") == 1 and depths(broker, "leased") == {"ready": 1}
    assert depths(broker, "expiring") == {"ready": 3}
    assert broker.run_maintenance("expired") == 3 and depths(broker, "expiring") == {"dead": 3}
    assert depths(broker, "dying") == {"dead": 1}
    assert broker.run_maintenance("expired-dlq") == 1 and depths(broker, "dying") == {}
    assert [broker.run_maintenance(name) for name in NAMES if name not in ("optimize", "depth", "retention")] == [0] * 6


@pytest.mark.parametrize("name", ["stale", "failed"])
def test_the_last_lease_that_ran_out_leaves_a_dead_letter(broker: Broker, clock: ManualClock, name: str) -> None:
    broker.send("q", "x", max_attempts=1)
    take(broker)
    clock.advance(60)
    assert broker.run_maintenance(name) == 1
    assert depths(broker) == {"dead": 1}


def test_a_dead_letter_that_is_used_up_is_removed_where_the_queue_says_so(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", dlq_exhausted="delete", max_attempts=1)
    bury(broker)
    broker.receive("q.dlq")
    clock.advance(60)
    assert broker.run_maintenance("failed-dlq") == 1
    assert depths(broker) == {}


def test_retention_is_what_was_kept_long_enough(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", keep="outcome", retention=10)
    broker.send("q", "x")
    broker.ack(take(broker))
    clock.advance(60)
    assert broker.run_maintenance("retention") >= 1
    assert depths(broker) == {}
