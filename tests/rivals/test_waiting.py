"""A consumer that waits in another process hears of a message soon."""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import rowq
from tests.rivals.conftest import Start
from tests.rivals.process import Rival

ROUNDS = 5


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


def test_a_consumer_in_another_process_hears_of_a_send(start: Start, broker: rowq.Broker) -> None:
    rival = start("obeying")
    rival.await_said("ready")

    def send() -> str:
        broker.send("q", "hello")
        return "hello"

    took = [seconds_until_received(rival, send) for _ in range(ROUNDS)]
    assert max(took) < 1
    assert statistics.median(took) < 0.5
    rival.finish()


def test_a_consumer_hears_of_what_the_application_committed_itself(start: Start, broker: rowq.Broker, path: Path) -> None:
    rival = start("obeying")
    rival.await_said("ready")
    with closing(sqlite3.connect(path, timeout=30)) as own:

        def send() -> str:
            with own:
                broker.within(own).send("q", "from within")
            return "from within"

        took = [seconds_until_received(rival, send) for _ in range(ROUNDS)]
    assert max(took) < 1
    assert statistics.median(took) < 0.5
    rival.finish()


def test_a_consumer_hears_nothing_before_the_application_commits(start: Start, broker: rowq.Broker, path: Path) -> None:
    rival = start("obeying")
    rival.await_said("ready")
    with closing(sqlite3.connect(path, timeout=30)) as own:
        with own:
            broker.within(own).send("q", "undone")
            own.rollback()
        assert rival.ask("receive", ["q"], {"wait": 0.2}) == []
        with own:
            broker.within(own).send("q", "done")
        assert [delivery["payload"] for delivery in rival.ask("receive", ["q"], {"max": 10, "wait": 5})] == ["done"]
    rival.finish()
