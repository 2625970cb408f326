"""However a head leaves its group, the next one goes: a group is never stuck."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rowq import Broker, ManualClock
from tests.support.life import crash, delete_while_leased, depths, drain, pass_time, purge_while_leased, take

Exit = Callable[[Broker, ManualClock, str], object]


def leave_unseen(broker: Broker, clock: ManualClock) -> None:
    """The last lease runs out, and no maintenance has run: the next receive must find out."""
    take(broker)
    clock.advance(40)


def expire_while_leased(broker: Broker, clock: ManualClock) -> None:
    take(broker, lease=1_100)
    pass_time(broker, clock, 1_200)


EXITS: dict[str, Exit] = {
    "ack": lambda broker, clock, head: broker.ack(take(broker)),
    "ack_many": lambda broker, clock, head: broker.ack_many([take(broker)]),
    "reject": lambda broker, clock, head: broker.reject(take(broker)),
    "last nack": lambda broker, clock, head: broker.nack(take(broker)),
    "last lease found by maintenance": lambda broker, clock, head: crash(broker, clock),
    "last lease found by a receive": lambda broker, clock, head: leave_unseen(broker, clock),
    "delete while ready": lambda broker, clock, head: broker.delete(head),
    "delete while leased": lambda broker, clock, head: delete_while_leased(broker, head),
    "purge while ready": lambda broker, clock, head: broker.purge("q", states=["ready"]),
    "purge while leased": lambda broker, clock, head: purge_while_leased(broker),
    "expiry found by maintenance": lambda broker, clock, head: pass_time(broker, clock, 1_001),
    "expiry found by a receive": lambda broker, clock, head: clock.advance(1_001),
    "expiry while leased": lambda broker, clock, head: expire_while_leased(broker, clock),
}
every_exit = pytest.mark.parametrize("leave", EXITS.values(), ids=EXITS)


def head_of_three(broker: Broker) -> str:
    head = broker.send("q", "a", group="g", max_attempts=1, ttl=1_000)
    broker.send_many("q", ["b", "c"], group="g")
    return head


@every_exit
def test_the_next_goes_when_the_head_has_left(broker: Broker, clock: ManualClock, leave: Exit) -> None:
    leave(broker, clock, head_of_three(broker))
    assert drain(broker) == ["b", "c"]
    assert depths(broker).keys() <= {"dead"}


@every_exit
def test_a_group_that_emptied_takes_new_messages(broker: Broker, clock: ManualClock, leave: Exit) -> None:
    leave(broker, clock, broker.send("q", "a", group="g", max_attempts=1, ttl=1_000))
    broker.send_many("q", ["x", "y"], group="g")
    assert drain(broker) == ["x", "y"]


@pytest.mark.parametrize("on_exhausted", ["dead", "fail", "delete"])
def test_a_used_up_head_lets_the_next_go(broker: Broker, clock: ManualClock, on_exhausted: str) -> None:
    broker.configure("q", on_exhausted=on_exhausted)  # type: ignore[arg-type]
    head_of_three(broker)
    broker.nack(take(broker))
    assert drain(broker) == ["b", "c"]


@pytest.mark.parametrize("on_expire", ["dead", "expired", "delete"])
def test_an_expired_head_lets_the_next_go(broker: Broker, clock: ManualClock, on_expire: str) -> None:
    broker.configure("q", on_expire=on_expire)  # type: ignore[arg-type]
    head_of_three(broker)
    clock.advance(1_001)
    assert drain(broker) == ["b", "c"]


def test_a_head_that_expires_while_scheduled_lets_the_next_go(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", ttl_from="enqueue")
    broker.send("q", "a", group="g", delay=5_000, ttl=10)
    broker.send("q", "b", group="g")
    clock.advance(11)
    broker.maintain()
    assert drain(broker) == ["b"]


def test_a_deleted_follower_is_skipped(broker: Broker) -> None:
    broker.send("q", "a", group="g")
    b, _ = broker.send_many("q", ["b", "c"], group="g")
    broker.delete(b)
    assert drain(broker) == ["a", "c"]


def test_a_follower_that_expired_is_skipped(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "a", group="g")
    broker.send("q", "b", group="g", ttl=10)
    broker.send("q", "c", group="g")
    head = take(broker)
    clock.advance(11)
    broker.ack(head)
    assert drain(broker) == ["c"]


def test_a_whole_group_may_expire(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", list(range(10)), group="g", ttl=10)
    broker.send("q", "alive", group="g")
    clock.advance(11)
    broker.maintain()
    assert drain(broker) == ["alive"]
    assert depths(broker) == {"dead": 10}


def test_purged_followers_leave_the_head(broker: Broker) -> None:
    head_of_three(broker)
    assert broker.purge("q", states=["blocked"]) == 2
    broker.send("q", "d", group="g")
    assert drain(broker) == ["a", "d"]


def test_purged_waiting_messages_leave_a_leased_head(broker: Broker) -> None:
    head_of_three(broker)
    head = take(broker)
    assert broker.purge("q") == 2
    broker.send("q", "d", group="g")
    assert broker.receive("q", max=10) == []
    broker.ack(head)
    assert drain(broker) == ["d"]


def test_a_purged_delayed_head_lets_the_next_go(broker: Broker) -> None:
    broker.send("q", "a", group="g", delay=60)
    broker.send("q", "b", group="g")
    assert broker.purge("q", states=["scheduled"]) == 1
    assert drain(broker) == ["b"]


def test_a_group_begins_anew_in_a_queue_made_anew(broker: Broker) -> None:
    head_of_three(broker)
    take(broker)
    broker.delete_queue("q")
    broker.send_many("q", ["x", "y"], group="g")
    assert drain(broker) == ["x", "y"]
