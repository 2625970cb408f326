"""Messages that are committed late, at a place or a time that everybody has passed already: they are found all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

import rowq
from tests.rivals.application import own_connection
from tests.support.crowd import together
from tests.support.life import payloads, take
from tests.support.patience import eventually
from tests.support.tables import faults_of

pytestmark = pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)

BACKLOG = 2_000
OPTIONS: list[dict[str, Any]] = [{}, {"priority": 5}, {"delay": 0.2}, {"group": "g"}, {"key": "k"}]


@pytest.fixture(autouse=True)
def looks_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a busy machine takes: a look at everything that took long is not repeated for a while."""
    monkeypatch.setattr("rowq.store.due_time._CHEAP_MS", 1 << 62)
    monkeypatch.setattr("rowq.store.head_hint._CHEAP", float("inf"))


@pytest.fixture
def other(url: str) -> Iterator[rowq.Broker]:
    """As one of another process: nothing is shared but the database."""
    with rowq.connect(url) as broker:
        yield broker


def test_what_an_application_commits_late_is_delivered(url: str, broker: rowq.Broker) -> None:
    """A queue for each way to send, so that the seconds in which nothing comes are waited for once."""
    queues = {f"q-{next(iter(options), 'plain')}": options for options in OPTIONS}
    with closing(own_connection(url)) as own:
        for queue, options in queues.items():
            broker.configure(queue, lease=120)
            broker.within(own).send(queue, "late", **options)
            broker.send_many(queue, range(20))
            broker.send(queue, "delayed", delay=0.1)
        taken: dict[str, list[Any]] = {queue: [] for queue in queues}

        def has_passed_everything(queue: str) -> bool:
            taken[queue].extend(payloads(broker.receive(queue, max=3)))
            return "delayed" in taken[queue]

        for queue in queues:
            eventually(lambda: has_passed_everything(queue))  # noqa: B023  # called at once
        for _ in range(3):  # a second at least, in which it looks where it has been, and finds nothing
            assert together(*(partial(broker.receive, queue, wait=0.5) for queue in queues)) == [[]] * len(queues)
        own.commit()
    for queue in queues:
        assert take(broker, queue, wait=30).payload == "late"
        assert sorted(map(str, taken[queue])) == sorted(map(str, [*range(20), "delayed"]))
    assert faults_of(url) == {}


def test_what_another_broker_puts_before_all_others_comes_next(other: rowq.Broker, broker: rowq.Broker) -> None:
    """A broker knows its own rows at once; those of others it hears of, or finds a moment later."""
    broker.send_many("q", range(BACKLOG))
    for _ in range(5):
        broker.ack_many(broker.receive("q", max=10))
    other.send("q", "urgent", priority=9)
    received: list[Any] = []

    def has_come() -> bool:
        deliveries = broker.receive("q", max=2)
        received.extend(payloads(deliveries))
        broker.ack_many(deliveries)
        return "urgent" in received

    eventually(has_come)
    assert len(received) < BACKLOG / 2, "it came when there was hardly anything else left"


def test_what_another_broker_hands_back_is_found_before_what_was_sent_after_it(other: rowq.Broker, broker: rowq.Broker) -> None:
    broker.send_many("q", range(BACKLOG))
    (early,) = other.receive("q", lease=600)
    for _ in range(5):
        broker.ack_many(broker.receive("q", max=10))
    other.nack(early, delay=0)
    received: list[Any] = []

    def has_come() -> bool:
        received.extend(payloads(broker.receive("q")))
        return early.payload in received

    eventually(has_come)
    assert len(received) < BACKLOG / 2
