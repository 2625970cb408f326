"""How many messages are where."""

from __future__ import annotations

from rowq import Broker, ManualClock, Stats
from tests.support.life import one_of_each, take


def test_an_empty_queue_has_nothing(broker: Broker) -> None:
    broker.configure("empty")
    assert broker.stats("empty") == Stats(queue="empty")


def test_every_state_is_counted(broker: Broker, clock: ManualClock) -> None:
    one_of_each(broker)
    assert broker.stats("q") == Stats(queue="q", ready=1, scheduled=1, leased=1, blocked=1, dead=1, finished=1, oldest_ready_at=clock.now())
    assert broker.stats("q").depth == 4


def test_the_oldest_ready_message_tells_its_age(broker: Broker, clock: ManualClock) -> None:
    first = clock.now()
    broker.send("q", "a")
    clock.advance(10)
    broker.send("q", "b", priority=5)
    assert broker.stats("q").oldest_ready_at == first
    broker.ack_many(broker.receive("q", max=2))
    assert broker.stats("q").oldest_ready_at is None


def test_all_queues_are_listed(broker: Broker) -> None:
    broker.send_many("a", [1, 2])
    broker.configure("b", lease=5)
    broker.configure("c")
    broker.pause("c")
    broker.send("d", 1)
    take(broker, "d")
    listed = {stats.queue: stats for stats in broker.queues()}
    assert set(listed) == {"a", "b", "c", "d"}
    assert listed == {name: broker.stats(name) for name in listed}


def test_an_emptied_queue_is_still_listed(broker: Broker) -> None:
    broker.send("q", 1)
    broker.ack(take(broker))
    assert broker.queues() == [Stats(queue="q")]


def test_no_queues_are_listed_at_first(broker: Broker) -> None:
    assert broker.queues() == []


def test_counts_are_exact_for_many(broker: Broker) -> None:
    broker.send_many("q", list(range(3_000)))
    broker.receive("q", max=700)
    assert (broker.stats("q").ready, broker.stats("q").leased) == (2_300, 700)
