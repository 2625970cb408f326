"""Messages that are committed late, at a place or a time that everybody has passed already: they are found all the same."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

import rowq
from tests.rivals.application import own_connection
from tests.rivals.process import Start
from tests.support.life import payloads, take
from tests.support.patience import eventually
from tests.support.tables import faults_of

pytestmark = pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)

BACKLOG = 5_000
SOON = 5
"""Seconds: whoever waits looks at everything once a second, where that is quick."""


@pytest.mark.parametrize(
    "options", [{}, {"priority": 5}, {"delay": 0.2}, {"group": "g"}, {"key": "k"}], ids=lambda options: next(iter(options), "plain")
)
def test_what_an_application_commits_late_is_delivered(url: str, broker: rowq.Broker, options: dict[str, Any]) -> None:
    broker.configure("q", lease=60)
    with closing(own_connection(url)) as own:
        broker.within(own).send("q", "late", **options)
        broker.send_many("q", range(20))
        broker.send("q", "delayed", delay=0.1)
        taken: list[rowq.Delivery] = []

        def has_passed_everything() -> bool:
            taken.extend(broker.receive("q", max=3))
            return "delayed" in payloads(taken)

        eventually(has_passed_everything)
        for _ in range(3):  # a second at least, in which it looks where it has been, and finds nothing
            assert broker.receive("q", wait=0.5) == []
        own.commit()
    assert take(broker, wait=SOON).payload == "late"
    assert sorted(map(str, payloads(taken))) == sorted(map(str, [*range(20), "delayed"]))
    assert faults_of(url) == {}


def test_what_another_process_puts_before_all_others_comes_next(start: Start, url: str, broker: rowq.Broker) -> None:
    """A process knows its own rows at once; those of others it hears of, or finds a moment later."""
    rival = start("obeying", url)
    rival.await_said("ready")
    broker.send_many("q", range(BACKLOG))
    for _ in range(5):
        broker.ack_many(broker.receive("q", max=10))
    rival.ask("send", ["q", "urgent"], {"priority": 9})
    received: list[Any] = []

    def has_come() -> bool:
        deliveries = broker.receive("q", max=2)
        received.extend(payloads(deliveries))
        broker.ack_many(deliveries)
        return "urgent" in received

    eventually(has_come)
    assert len(received) < BACKLOG / 2, "it came when there was hardly anything else left"
    rival.finish()


def test_what_another_process_hands_back_is_found_before_what_was_sent_after_it(start: Start, url: str, broker: rowq.Broker) -> None:
    rival = start("obeying", url)
    rival.await_said("ready")
    broker.send_many("q", range(BACKLOG))
    (early,) = rival.ask("receive", ["q"], {"lease": 60})
    for _ in range(5):
        broker.ack_many(broker.receive("q", max=10))
    rival.ask("nack", [early["receipt"]], {"delay": 0})
    received: list[Any] = []

    def has_come() -> bool:
        received.extend(payloads(broker.receive("q")))
        return early["payload"] in received

    eventually(has_come)
    assert len(received) < BACKLOG / 2
    rival.finish()
