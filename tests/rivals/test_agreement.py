"""Several brokers that want the same thing at the same moment: one gets it, or all get the same."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

import rowq
from rowq.model.draft import prepare
from rowq.store.call import Send
from tests.rivals.process import Start
from tests.support.background import Background
from tests.support.crowd import together
from tests.support.life import drain
from tests.support.patience import eventually
from tests.support.tables import faults_of

ROUNDS = 15
CALLS = 12
LIMIT = 40


@pytest.fixture
def brokers(url: str) -> Iterator[list[rowq.Broker]]:
    """As different processes would be: nothing is shared but the database."""
    opened = [rowq.connect(url, maintenance=False) for _ in range(4)]
    yield opened
    for broker in opened:
        broker.close()


def test_an_id_that_several_bring_at_once_is_taken_by_one(brokers: list[rowq.Broker], url: str) -> None:
    def send(broker: rowq.Broker, number: int) -> str:
        try:
            return broker.send("q", number, id=f"order-{number}", group="g")
        except rowq.IdTaken as error:
            return error.code

    for number in range(ROUNDS):
        answers = Counter(together(*(partial(send, broker, number) for broker in brokers)))
        assert answers == {f"order-{number}": 1, rowq.IdTaken.code: len(brokers) - 1}
    assert drain(brokers[0]) == list(range(ROUNDS))
    assert faults_of(url) == {}


def test_a_request_that_is_asked_several_times_at_once_is_carried_out_once(brokers: list[rowq.Broker], url: str) -> None:
    def ask(broker: rowq.Broker, number: int) -> tuple[str, ...]:
        messages = [prepare("q", rowq.Draft([number, place])) for place in range(3)]
        ids: list[str] = broker._engine._group_commit.run(Send("q", messages, request=f"request-{number}"))
        return tuple(ids)

    for number in range(ROUNDS):
        assert len(set(together(*(partial(ask, broker, number) for broker in brokers)))) == 1
    assert sorted(drain(brokers[0])) == [[number, place] for number in range(ROUNDS) for place in range(3)]
    assert faults_of(url) == {}


def test_settings_that_several_change_at_once_are_all_changed(brokers: list[rowq.Broker]) -> None:
    for number in range(1, ROUNDS):
        changes: list[dict[str, int]] = [{"lease": number}, {"max_attempts": number}, {"ttl": number}, {"max_depth": number}]
        together(*(partial(broker.configure, "q", **change) for broker, change in zip(brokers, changes, strict=True)))  # type: ignore[arg-type]
        settings = brokers[0].settings("q")
        assert (settings.lease_ms, settings.max_attempts, settings.ttl_ms, settings.max_depth) == (
            *(number * 1000, number),
            *(number * 1000, number),
        )


def test_a_limit_of_messages_a_second_is_shared(begin: Start, url: str, brokers: list[rowq.Broker]) -> None:
    brokers[0].configure("q", throughput_limit=LIMIT)
    brokers[0].send_many("q", range(1_000))
    began = time.monotonic()
    consumers = [begin("consuming", url, f"consumer-{number}", 2, 60) for number in range(2)]
    for consumer in consumers:
        consumer.await_said("acked", 15)
    for consumer in consumers:
        consumer.finish()
    took = time.monotonic() - began
    got = sum(len(consumer.said("got")) for consumer in consumers)
    # A second's worth at once, and what has come since, by clocks that the processes set by the database's: each may be off by as long
    # as its last question took.
    assert got <= LIMIT * (took + 1.5)
    assert got > LIMIT / 2


def test_a_queue_that_is_deleted_under_its_senders_is_made_again(begin: Start, url: str, brokers: list[rowq.Broker]) -> None:
    """Whatever was sent before the end is gone; whatever comes after is in a queue that exists by use. They send for a while only: a
    deletion removes until nothing is left, and would not end before they do."""
    senders = [begin("sending", url, f"sender-{number}", 2, CALLS) for number in range(2)]
    for sender in senders:
        sender.await_said("sent", 5)
    deleting = Background(lambda: brokers[0].delete_queue("q"))
    for sender in senders:
        sender.await_said("sent", 2 * CALLS)
        sender.finish()
    deleting.result(60)
    brokers[0].send("q", "the last")
    eventually(lambda: faults_of(url) == {})
    assert brokers[0].settings("q") == rowq.Settings()
    assert "the last" in drain(brokers[0])
