"""Waiting for a message: woken when there is one, back in time when there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from rowq import Broker, BrokerClosed, Delivery, ManualClock
from rowq.engine import waiting as waiting_room
from tests.support.background import Background, still_running_after_the_first
from tests.support.harness import Harness
from tests.support.life import bury, drain, payloads, take


def waiter(broker: Broker, queue: str = "q", *, wait: float = 120, max: int = 1) -> Background[list[Delivery]]:
    return Background(lambda: broker.receive(queue, wait=wait, max=max))


def test_a_message_that_is_there_is_not_waited_for(broker: Broker) -> None:
    broker.send("q", "x")
    assert payloads(waiter(broker, max=10).result()) == ["x"]


def test_no_wait_comes_back_at_once(broker: Broker) -> None:
    assert waiter(broker, wait=0).result() == []


def test_a_wait_ends_in_time(broker: Broker) -> None:
    began = time.monotonic()
    assert waiter(broker, wait=0.3).result() == []
    assert time.monotonic() - began >= 0.29


def test_a_wait_costs_next_to_nothing(broker: Broker) -> None:
    def cost() -> float:
        before = time.process_time()
        assert waiter(broker, wait=1).result() == []
        return time.process_time() - before

    # A waiter that spins costs its second of CPU every time. The test process
    # has work of its own as well (a full garbage collection takes half a
    # second), but not during each of the waits.
    assert any(cost() < 0.5 for _ in range(5))


def test_a_send_wakes_a_waiter(broker: Broker) -> None:
    waiting = waiter(broker)
    broker.send("q", "x")
    assert payloads(waiting.result()) == ["x"]


def test_a_waiter_is_woken_without_polling(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_room, "SAFETY", 3600.0)

    def echo() -> int:
        for number in range(10):
            delivery = take(broker, "there", wait=60)
            broker.ack(delivery)
            broker.send("back", number)
        return 10

    echoing = Background(echo)
    for number in range(10):
        broker.send("there", number)
        delivery = take(broker, "back", wait=60)
        assert delivery.payload == number
        broker.ack(delivery)
    assert echoing.result() == 10


def test_several_waiters_share_several_messages(broker: Broker) -> None:
    waiting = [waiter(broker) for _ in range(8)]
    broker.send_many("q", list(range(8)))
    received = [payload for each in waiting for payload in payloads(each.result())]
    assert sorted(received) == list(range(8))


def test_waiters_are_served_one_message_at_a_time(broker: Broker) -> None:
    waiting = [waiter(broker) for _ in range(5)]
    for number in range(5):
        broker.send("q", number)
    assert sorted(payload for each in waiting for payload in payloads(each.result())) == list(range(5))


def test_a_waiter_that_was_not_served_goes_on_waiting(broker: Broker) -> None:
    waiting = [waiter(broker) for _ in range(2)]
    broker.send("q", "first")
    (left,) = still_running_after_the_first(waiting)
    broker.send("q", "second")
    assert payloads(left.result()) == ["second"]


def test_a_waiter_of_one_queue_is_not_served_from_another(broker: Broker) -> None:
    waiting = waiter(broker, "q")
    broker.send("p", "not for q")
    broker.send("q", "for q")
    assert payloads(waiting.result()) == ["for q"]


def test_a_waiter_takes_no_more_than_it_asked_for(broker: Broker) -> None:
    waiting = waiter(broker, max=3)
    broker.send_many("q", list(range(5)))
    assert payloads(waiting.result()) == [0, 1, 2]
    assert drain(broker) == [3, 4]


Make = Callable[[Broker, ManualClock], object]


def sent_and_taken(broker: Broker) -> Delivery:
    broker.send("q", "x")
    return take(broker)


def sent_and_left(broker: Broker) -> str:
    """The queue in which a message waits."""
    return broker.get(broker.send("q", "x")).queue


BECOMES_AVAILABLE: dict[str, tuple[Make, Make]] = {
    "a delayed message is due": (
        lambda broker, clock: broker.send("q", "x", delay=60),
        lambda broker, clock: clock.advance(60),
    ),
    "a retry is due": (
        lambda broker, clock: broker.nack(sent_and_taken(broker)),
        lambda broker, clock: clock.advance(1),
    ),
    "a lease runs out": (
        lambda broker, clock: sent_and_taken(broker),
        lambda broker, clock: clock.advance(31),
    ),
    "a queue is resumed": (
        lambda broker, clock: broker.pause(sent_and_left(broker)),
        lambda broker, clock: broker.resume("q"),
    ),
    "dead letters are redriven": (
        lambda broker, clock: bury(broker),
        lambda broker, clock: broker.redrive("q"),
    ),
}


@pytest.mark.parametrize(("before", "meanwhile"), BECOMES_AVAILABLE.values(), ids=BECOMES_AVAILABLE)
def test_what_becomes_available_while_waiting_is_delivered(broker: Broker, clock: ManualClock, before: Make, meanwhile: Make) -> None:
    before(broker, clock)
    waiting = waiter(broker)
    meanwhile(broker, clock)
    assert payloads(waiting.result()) == ["x"]


@pytest.mark.parametrize("settle", ["nack", "release"])
def test_a_message_given_back_goes_to_a_waiter(broker: Broker, settle: str) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    waiting = waiter(broker)
    if settle == "nack":
        broker.nack(delivery, delay=0)
    else:
        broker.nack(delivery, counts=False)
    assert payloads(waiting.result()) == ["x"]


def test_the_next_of_a_group_goes_to_a_waiter(broker: Broker) -> None:
    broker.send_many("q", ["a", "b"], group="g")
    head = take(broker)
    waiting = waiter(broker)
    broker.ack(head)
    assert payloads(waiting.result()) == ["b"]


def test_a_waiter_for_dead_letters_is_served(broker: Broker) -> None:
    waiting = waiter(broker, "q.dlq")
    bury(broker)
    assert payloads(waiting.result()) == ["x"]


def test_a_send_of_another_process_is_heard(harness: Harness) -> None:
    waiting = waiter(harness.broker)
    harness.open().send("q", "x")
    assert payloads(waiting.result()) == ["x"]


def test_the_lease_of_a_waiter_begins_when_it_is_served(broker: Broker, clock: ManualClock) -> None:
    def lease_of_one() -> int:
        waiting = waiter(broker)
        clock.advance(1_000)
        broker.send("q", "x")
        (delivery,) = waiting.result()
        broker.ack_many([delivery])
        return delivery.lease_until - clock.now()

    # A look that had read the clock before it was moved may still find the message; so a stalled machine needs another try.
    assert 30_000 in (lease_of_one() for _ in range(5))


def test_closing_ends_every_wait(harness: Harness) -> None:
    waiting = waiter(harness.broker)
    harness.close()
    with suppress(BrokerClosed):
        assert waiting.result() == []
