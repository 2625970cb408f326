"""Messages of one group are delivered one at a time, in order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rowq import Broker, Delivery, Draft, ManualClock, Outcome, State
from tests.support.life import bury, comes_after, depths, drain, is_silent, pass_time, payloads, state_of, take


def send_group(broker: Broker, *names: str, group: str = "g") -> list[str]:
    return broker.send_many("q", list(names), group=group)


def test_only_the_head_of_a_group_is_delivered(broker: Broker) -> None:
    send_group(broker, "a", "b", "c")
    assert depths(broker) == {"ready": 1, "blocked": 2}
    assert payloads(broker.receive("q", max=10)) == ["a"]
    assert is_silent(broker)


def test_the_next_goes_when_the_head_is_acked(broker: Broker) -> None:
    send_group(broker, "a", "b", "c")
    for name in "abc":
        (delivery,) = broker.receive("q", max=10)
        assert delivery.payload == name
        broker.ack(delivery)
    assert depths(broker) == {}


def test_a_message_sent_while_the_head_is_leased_waits(broker: Broker) -> None:
    send_group(broker, "a")
    head = take(broker)
    later = broker.send("q", "b", group="g")
    assert state_of(broker, later) == State.BLOCKED
    assert is_silent(broker)
    broker.ack(head)
    assert take(broker).id == later


def test_groups_do_not_wait_for_one_another(broker: Broker) -> None:
    broker.send_many("q", [Draft("g1", group="g"), Draft("h1", group="h"), Draft("g2", group="g"), "alone", Draft("h2", group="h")])
    heads = broker.receive("q", max=10)
    assert payloads(heads) == ["g1", "h1", "alone"]
    broker.ack(heads[1])
    assert payloads(broker.receive("q", max=10)) == ["h2"]


def test_groups_of_one_name_in_two_queues_are_two_groups(broker: Broker) -> None:
    broker.send("q", "a", group="g")
    broker.send("p", "b", group="g")
    assert (take(broker, "q").payload, take(broker, "p").payload) == ("a", "b")


def test_a_backing_off_head_holds_its_group(broker: Broker, clock: ManualClock) -> None:
    send_group(broker, "a", "b")
    broker.nack(take(broker))
    assert is_silent(broker)
    assert comes_after(broker, clock, 1).payload == "a"


def test_a_released_head_is_the_head_again(broker: Broker) -> None:
    send_group(broker, "a", "b")
    broker.nack(take(broker), counts=False)
    assert take(broker).payload == "a"
    assert is_silent(broker)


def test_a_rescheduled_head_holds_its_group(broker: Broker, clock: ManualClock) -> None:
    send_group(broker, "a", "b")
    broker.reschedule(take(broker), 60)
    assert comes_after(broker, clock, 60).payload == "a"


def test_a_head_whose_lease_ran_out_is_the_head_again(broker: Broker, clock: ManualClock) -> None:
    send_group(broker, "a", "b")
    take(broker)
    clock.advance(31)
    assert payloads(broker.receive("q", max=10)) == ["a"]


def test_a_delayed_head_holds_its_group(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "a", group="g", delay=60)
    broker.send("q", "b", group="g")
    assert depths(broker) == {"scheduled": 1, "blocked": 1}
    head = comes_after(broker, clock, 60)
    assert head.payload == "a"
    broker.ack(head)
    assert take(broker).payload == "b"


def test_a_delayed_follower_waits_until_it_is_due(broker: Broker, clock: ManualClock) -> None:
    send_group(broker, "a")
    later = broker.send("q", "b", group="g", delay=60)
    clock.advance(10)
    broker.ack(take(broker))
    assert is_silent(broker)
    assert state_of(broker, later) == State.SCHEDULED
    assert comes_after(broker, clock, 50).id == later


def test_a_delayed_follower_that_is_due_already_goes_at_once(broker: Broker, clock: ManualClock) -> None:
    send_group(broker, "a")
    broker.send("q", "b", group="g", delay=60)
    head = take(broker, lease=300)
    clock.advance(100)
    broker.ack(head)
    assert take(broker).payload == "b"


def test_priority_does_not_reorder_inside_a_group(broker: Broker) -> None:
    broker.send("q", "a", group="g")
    broker.send("q", "b", group="g", priority=9)
    assert drain(broker) == ["a", "b"]


def test_priority_orders_groups_among_each_other(broker: Broker) -> None:
    broker.send("q", "low", group="g")
    broker.send("q", "high", group="h", priority=1)
    assert payloads(broker.receive("q", max=10)) == ["high", "low"]


def test_a_long_group_keeps_its_order(broker: Broker) -> None:
    send_group(broker, *map(str, range(100)))
    assert drain(broker) == list(map(str, range(100)))


def test_a_group_begins_anew_when_it_was_empty(broker: Broker) -> None:
    for name in "abc":
        send_group(broker, name)
        assert drain(broker) == [name]


def test_many_groups_each_keep_their_order(broker: Broker) -> None:
    broker.send_many("q", [Draft((group, number), group=group) for number in range(20) for group in "abcde"])
    drained = drain(broker)
    assert len(drained) == 100
    for group in "abcde":
        assert [number for of, number in drained if of == group] == list(range(20))


def test_a_redriven_message_waits_for_the_leased_head(broker: Broker) -> None:
    dead = bury(broker, "a", group="g")
    broker.send("q", "b", group="g")
    head = take(broker)
    broker.redrive("q")
    assert is_silent(broker)
    assert state_of(broker, dead) == State.BLOCKED
    broker.ack(head)
    assert take(broker).payload == "a"


def test_a_redriven_message_takes_its_old_place_in_the_group(broker: Broker) -> None:
    bury(broker, "a", group="g")
    send_group(broker, "b", "c")
    broker.redrive("q")
    assert payloads(broker.receive("q", max=10)) == ["a"]
    broker.redrive("q")
    assert depths(broker) == {"leased": 1, "blocked": 2}


RETURNS: dict[str, Callable[[Broker, Delivery, ManualClock], object]] = {
    "nack with a delay": lambda broker, delivery, clock: broker.nack(delivery, delay=60),
    "nack at once": lambda broker, delivery, clock: broker.nack(delivery, delay=0),
    "release": lambda broker, delivery, clock: broker.nack(delivery, counts=False),
    "reschedule": lambda broker, delivery, clock: broker.reschedule(delivery, 60),
    "expiry of the lease": lambda broker, delivery, clock: pass_time(broker, clock, 31),
    "expiry at the next receive": lambda broker, delivery, clock: clock.advance(31),
}


@pytest.mark.parametrize("way", RETURNS)
def test_a_younger_message_that_comes_back_waits_for_the_redriven_one(broker: Broker, clock: ManualClock, way: str) -> None:
    broker.send_many("q", ["a", "b", "c"], group="g")
    broker.reject(take(broker))
    leased = take(broker)
    assert leased.payload == "b"
    broker.redrive("q")
    RETURNS[way](broker, leased, clock)
    order = []
    for _ in range(3):
        delivery = take(broker)
        order.append(delivery.payload)
        broker.ack(delivery)
        clock.advance(60)
    assert order == ["a", "b", "c"]


def test_several_groups_at_once_give_way_to_what_was_redriven(broker: Broker) -> None:
    for group in ("x", "y", "z"):
        broker.send_many("q", [f"{group}1", f"{group}2"], group=group)
    for delivery in broker.receive("q", max=10):
        broker.reject(delivery)
    leased = broker.receive("q", max=10)
    broker.redrive("q")
    assert broker.nack_many(leased, delay=0) == [Outcome.DONE] * 3
    assert sorted(delivery.payload for delivery in broker.receive("q", max=10)) == ["x1", "y1", "z1"]


def test_a_redriven_group_keeps_its_order(broker: Broker) -> None:
    for name in "abc":
        bury(broker, name, group="g")
    assert broker.redrive("q") == 3
    assert depths(broker) == {"ready": 1, "blocked": 2}
    assert drain(broker) == ["a", "b", "c"]


def test_the_dead_of_a_group_are_received_beside_its_living(broker: Broker) -> None:
    bury(broker, "dead", group="g")
    send_group(broker, "a", "b")
    dead = take(broker, "q.dlq")
    head = take(broker)
    assert (dead.payload, head.payload) == ("dead", "a")
    broker.ack(dead)
    assert is_silent(broker)
    broker.ack(head)
    assert take(broker).payload == "b"
