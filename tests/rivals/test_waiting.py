"""A consumer that waits in another process hears of a message soon."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import rowq
from tests.rivals.application import own_connection
from tests.rivals.process import Rival, Start

ROUNDS = 5
AT_THE_LATEST = 2
"""Seconds: whoever was told nothing looks once a second. That is the net, and not what most should need."""


def seconds_until_received(rival: Rival, send: Callable[[], Any]) -> float:
    """Whoever only looks once a second needs one; `waiting` means that the look before has found nothing."""
    waits, answers = len(rival.said("waiting")), len(rival.said("answer"))
    rival.tell("receive", ["q"], {"wait": 15})
    rival.await_said("waiting", waits + 1)
    payload = send()
    sent_at = time.monotonic()
    (deliveries,) = rival.await_said("answer", answers + 1)[-1]
    took = time.monotonic() - sent_at
    assert [delivery["payload"] for delivery in deliveries] == [payload]
    return took


def test_a_consumer_in_another_process_hears_of_a_send(start: Start, url: str, broker: rowq.Broker) -> None:
    rival = start("obeying", url)
    rival.await_said("ready")

    def send() -> str:
        broker.send("q", "hello")
        return "hello"

    took = [seconds_until_received(rival, send) for _ in range(ROUNDS)]
    assert max(took) < AT_THE_LATEST
    assert statistics.median(took) < 0.5
    rival.finish()


def test_a_consumer_hears_of_what_the_application_committed_itself(start: Start, kind: str, url: str, broker: rowq.Broker) -> None:
    rival = start("obeying", url)
    rival.await_said("ready")
    with closing(own_connection(url)) as own:

        def send() -> str:
            broker.within(own).send("q", "from within")
            own.commit()
            return "from within"

        took = [seconds_until_received(rival, send) for _ in range(ROUNDS)]
    # PostgreSQL tells of what brokers commit; what an application commits is found once a second.
    assert max(took) < AT_THE_LATEST
    assert statistics.median(took) < (1.3 if kind == "postgresql" else 0.5)
    rival.finish()


def test_a_consumer_hears_nothing_before_the_application_commits(start: Start, url: str, broker: rowq.Broker) -> None:
    rival = start("obeying", url)
    rival.await_said("ready")
    with closing(own_connection(url)) as own:
        broker.within(own).send("q", "undone")
        own.rollback()
        assert rival.ask("receive", ["q"], {"wait": 0.2}) == []
        broker.within(own).send("q", "done")
        own.commit()
        assert [delivery["payload"] for delivery in rival.ask("receive", ["q"], {"max": 10, "wait": 5})] == ["done"]
    rival.finish()
