"""Receiving in shares: each takes its own messages first, and what others leave when it has none."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import Broker, Draft, InvalidArgument, ManualClock
from rowq.ids import origin_of
from rowq.model.member import NARROWEST, WIDEST
from tests.support.harness import Harness
from tests.support.life import payloads


def seqs(ids: list[str]) -> list[int]:
    origins = [origin_of(id) for id in ids]
    return [origin.seq for origin in origins if origin]


def own(ids: list[str], index: int, count: int) -> list[str]:
    """The ids of a share, in order."""
    return [id for id, seq in zip(ids, seqs(ids), strict=True) if seq % count == index]


def receive(broker: Broker, index: int, count: int, max: int = 10) -> list[str]:
    return [delivery.id for delivery in broker.receive("q", max=max, share=(index, count))]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_each_takes_its_own_first_and_in_order(broker: Broker, count: int) -> None:
    ids = broker.send_many("q", list(range(30)))
    for index in range(count):
        assert receive(broker, index, count) == own(ids, index, count)[:10]


def test_no_message_is_in_two_shares_or_in_none(broker: Broker) -> None:
    ids = broker.send_many("q", list(range(50)))
    taken = [id for index in range(3) for id in receive(broker, index, 3, max=50)]
    assert sorted(taken) == sorted(ids)


def test_whoever_has_something_of_its_own_leaves_the_rest_to_the_others(broker: Broker) -> None:
    ids = broker.send_many("q", list(range(10)))
    assert receive(broker, 0, 2, max=100) == own(ids, 0, 2)
    assert broker.stats("q").ready == 5


def test_whoever_has_nothing_of_its_own_takes_the_oldest_of_others(broker: Broker) -> None:
    ids = broker.send_many("q", list(range(20)))
    receive(broker, 0, 3, max=100)
    left = [id for id in ids if id not in own(ids, 0, 3)]
    assert receive(broker, 0, 3, max=5) == left[:5]
    assert receive(broker, 1, 3, max=100) == own(left[5:], 1, 3)


def test_a_share_that_lies_behind_others_is_found(broker: Broker) -> None:
    ids = broker.send_many("q", list(range(NARROWEST)))
    others = own(ids, 1, 2)
    receive(broker, 0, 2, max=NARROWEST)
    more = broker.send_many("q", list(range(4)))
    assert receive(broker, 0, 2) == own(more, 0, 2)
    assert receive(broker, 1, 2) == others[:10]


def test_what_a_slow_consumer_leaves_at_the_head_is_taken_by_others(broker: Broker) -> None:
    """One that takes nothing lets its share pile up: it is nobody's loss."""
    ids = broker.send_many("q", list(range(NARROWEST * 3)))
    taken: list[str] = []
    while got := receive(broker, 0, 3, max=20) + receive(broker, 1, 3, max=20):
        taken += got
    assert sorted(taken) == sorted(ids)


def test_a_long_queue_is_shared_to_its_end(broker: Broker) -> None:
    count = 1_000
    ids = broker.send_many("q", list(range(count)))
    taken: list[list[str]] = [[], [], [], []]
    while any(got := [receive(broker, index, 4, max=100) for index in range(4)]):
        for index, some in enumerate(got):
            taken[index] += some
    assert taken == [own(ids, index, 4) for index in range(4)]


def test_as_many_as_can_be_asked_for_are_taken_in_order(broker: Broker) -> None:
    ids = [id for _ in range(3) for id in broker.send_many("q", [b""] * 700)]
    assert receive(broker, 0, 1, max=1_000) == ids[:1_000]
    assert receive(broker, 1, 2, max=1_000) == own(ids[1_000:], 1, 2)
    assert receive(broker, 1, 2, max=1_000) == own(ids[1_000:], 0, 2)


def test_a_share_of_many_does_not_look_at_everything(broker: Broker) -> None:
    """Whoever shares with thousands takes others' before it has looked at the whole queue."""
    ids = broker.send_many("q", [b""] * 1_000) + broker.send_many("q", [b""] * 1_000) + broker.send_many("q", [b""] * 500)
    index = seqs(ids)[WIDEST + 100] % 10_000
    assert receive(broker, index, 10_000, max=1) == ids[:1]


def test_priorities_come_first_within_a_share(broker: Broker) -> None:
    ids = broker.send_many("q", [Draft(number, priority=number % 3) for number in range(18)])
    by_priority = sorted(range(18), key=lambda number: (-(number % 3), number))
    of_share = [ids[number] for number in by_priority if ids[number] in own(ids, 1, 2)]
    assert receive(broker, 1, 2, max=18) == of_share


def test_the_share_of_a_message_does_not_change_when_it_comes_back(broker: Broker, clock: ManualClock) -> None:
    ids = broker.send_many("q", list(range(6)))
    for delivery in broker.receive("q", max=6):
        broker.nack(delivery, delay=10)
    assert receive(broker, 0, 2) == []
    clock.advance(10)
    assert receive(broker, 0, 2) == own(ids, 0, 2)


def test_a_message_past_its_time_is_not_delivered_in_a_share(broker: Broker, clock: ManualClock) -> None:
    old = broker.send_many("q", list(range(6)), ttl=5)
    new = broker.send_many("q", list(range(6)))
    clock.advance(5)
    assert receive(broker, 0, 2) == own(new, 0, 2)
    assert receive(broker, 0, 2) == own(new, 1, 2)
    assert not set(old) & {message.id for message in broker.browse("q")}


def test_a_place_in_the_order_of_return_is_kept_in_a_share(broker: Broker) -> None:
    broker.configure("q", order="ready")
    ids = broker.send_many("q", list(range(8)))
    for delivery in broker.receive("q", max=4):
        broker.nack(delivery, delay=0)
    returned = [*ids[4:], *ids[:4]]
    assert receive(broker, 0, 2) == own(returned, 0, 2)
    assert receive(broker, 1, 2) == own(returned, 1, 2)
    assert broker.stats("q").ready == 0


def test_groups_come_one_at_a_time_in_a_share(broker: Broker) -> None:
    broker.send_many("q", [Draft(number, group="g") for number in range(3)])
    for expected in range(3):
        (delivery,) = broker.receive("q", max=3, share=(0, 2))
        assert delivery.payload == expected
        assert broker.receive("q", max=3, share=(1, 2)) == []
        broker.ack(delivery)


def test_a_delivery_of_a_share_is_like_any_other(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", {"n": 1}, headers={"a": "b"}, key="k")
    (delivery,) = broker.receive("q", lease=7, consumer="worker-1", share=(0, 1))
    assert (delivery.id, delivery.payload, delivery.headers, delivery.key, delivery.attempt) == (id, {"n": 1}, {"a": "b"}, "k", 1)
    assert delivery.lease_until == clock.now() + 7_000
    assert broker.get(id).consumer == "worker-1"
    assert [event.event for event in broker.audit(id)] == ["enqueued", "delivered"]
    broker.ack(delivery)
    assert broker.stats("q").leased == 0


def test_a_paused_queue_gives_no_share(broker: Broker) -> None:
    broker.send_many("q", [1, 2])
    broker.pause("q")
    assert broker.receive("q", share=(0, 1)) == []


def test_a_limit_holds_for_shares_too(broker: Broker) -> None:
    broker.configure("q", throughput_limit=5)
    broker.send_many("q", list(range(40)))
    taken = [receive(broker, index, 2, max=20) for index in (0, 1, 0, 1)]
    assert 1 <= sum(map(len, taken)) <= 5


def test_waiting_ends_when_others_are_sent_something(broker: Broker) -> None:
    broker.send("q", 1)
    assert payloads(broker.receive("q", wait=5, share=(0, 2)) or broker.receive("q", share=(1, 2))) == [1]


def test_shares_and_others_take_from_one_queue(broker: Broker) -> None:
    ids = broker.send_many("q", list(range(12)))
    assert [delivery.id for delivery in broker.receive("q", max=4)] == ids[:4]
    assert receive(broker, 0, 2, max=100) == own(ids[4:], 0, 2)
    assert [delivery.id for delivery in broker.receive("q", max=100)] == own(ids[4:], 1, 2)


def test_two_brokers_take_different_shares(harness: Harness) -> None:
    ids = harness.broker.send_many("q", list(range(20)))
    other = harness.open()
    assert receive(harness.broker, 0, 2) == own(ids, 0, 2)
    assert receive(other, 1, 2) == own(ids, 1, 2)


@pytest.mark.parametrize("share", [(1, 1), (-1, 2), (0, 0), (0, 10_001), (0,), (0, 1, 2), "01", 5, (0.0, 1), (True, 2)])
def test_a_share_that_makes_no_sense_is_refused(broker: Broker, share: Any) -> None:
    with pytest.raises(InvalidArgument, match="share"):
        broker.receive("q", share=share)


def test_dead_letters_are_not_shared(broker: Broker) -> None:
    with pytest.raises(InvalidArgument, match="dead letters"):
        broker.receive("q.dlq", share=(0, 1))
