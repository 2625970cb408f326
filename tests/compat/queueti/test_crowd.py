"""Many at once: nothing is lost, nothing is doubled."""

from __future__ import annotations

from functools import partial

import pytest

from tests.compat.queueti.asking import Topics
from tests.support.crowd import together

THREADS = 20


@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.prove("10 s on each database; 10 from each stand for it"))])
@pytest.mark.timeout(600)
def test_twenty_producers_and_twenty_consumers(topics: Topics, count: int) -> None:
    def produce(number: int) -> list[str]:
        return [topics.send("orders", b"%d" % (number * count + each)) for each in range(count)]

    def consume() -> list[str]:
        done: list[str] = []
        while found := topics.dequeue("orders", count=7):
            for message in found:
                assert topics.ack(message["id"], receipt=message["receipt"]) == 204
                done.append(message["id"])
        return done

    sent = [id for ids in together(*(partial(produce, number) for number in range(THREADS)), within=500) for id in ids]
    done = [id for ids in together(*(consume for _ in range(THREADS)), within=500) for id in ids]
    assert len(set(sent)) == THREADS * count
    assert sorted(done) == sorted(sent)


def test_a_message_that_all_nack_is_nacked_once_each_time(topics: Topics) -> None:
    id = topics.send("orders")
    for _ in range(4):
        receipt = topics.one("orders")["receipt"]
        answers = together(*(partial(topics.nack, id, receipt=receipt) for _ in range(THREADS)))
        assert sorted(answers) == [204] + [404] * (THREADS - 1)
    assert topics.one("orders.dlq")["id"] == id


def test_a_key_that_all_send_waits_once(topics: Topics) -> None:
    ids = together(*(partial(topics.send, "orders", b"%d" % number, key="order-42") for number in range(THREADS)))
    assert len(set(ids)) == 1
    assert len(topics.dequeue("orders", count=100)) == 1
