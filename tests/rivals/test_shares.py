"""Consumers that share a queue, all at once: who leaves, who comes and who steals change nothing about each message being handled once."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial

import rowq
from tests.support.crowd import together

MESSAGES = 1_500
CONSUMERS = 5


def test_every_message_is_handled_once_whoever_shares(url: str, broker: rowq.Broker) -> None:
    """One of them leaves early, one has the wrong idea of its share, and one takes no share at all."""
    ids = broker.send_many("q", list(range(MESSAGES)))

    def consume(number: int) -> list[str]:
        handled: list[str] = []
        with rowq.connect(url, maintenance=False) as own:
            me = own.register("q", dead_after=600)
            while own.stats("q").depth:
                deliveries = own.receive("q", max=1 + number * 7, share=_share(number, me))
                own.ack_many(deliveries)
                handled += [delivery.id for delivery in deliveries]
                if number == 1 and len(handled) > 50:
                    break
                me = own.beat("q", me.id, dead_after=600, remove_dead=True)
            own.unregister("q", me.id)
        return handled

    answers = together(*(partial(consume, number) for number in range(CONSUMERS)), within=100)
    assert Counter(id for handled in answers for id in handled) == Counter(ids)
    assert (broker.stats("q").depth, broker.consumers("q", dead_after=600)) == (0, [])


def _share(number: int, me: rowq.Membership) -> tuple[int, int] | None:
    return {2: (0, 3), 3: None}.get(number, (me.index, me.count))


def test_threads_of_one_broker_take_different_shares(broker: rowq.Broker) -> None:
    ids = broker.send_many("q", list(range(MESSAGES)))
    begin = threading.Barrier(4)

    def consume(index: int) -> list[str]:
        handled: list[str] = []
        begin.wait(60)
        while broker.stats("q").depth:
            deliveries = broker.receive("q", max=60, share=(index, 4))
            broker.ack_many(deliveries)
            handled += [delivery.id for delivery in deliveries]
        return handled

    answers = together(*(partial(consume, index) for index in range(4)), within=100)
    assert Counter(id for handled in answers for id in handled) == Counter(ids)


def test_consumers_that_beat_together_hold_up_nobody(url: str, broker: rowq.Broker) -> None:
    for _ in range(20):
        broker.register("q", dead_after=0.001)

    def live(number: int) -> int:
        with rowq.connect(url, maintenance=False) as own:
            me = own.register("q", dead_after=600)
            for _ in range(30):
                me = own.beat("q", me.id, dead_after=600, remove_dead=number % 2 == 0)
            return me.count

    counts = together(*(partial(live, number) for number in range(6)), within=100)
    assert max(counts) >= 6
    assert len(broker.consumers("q", dead_after=600)) >= 6
