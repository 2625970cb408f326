"""From a send to the consumer that waits for it: no moment in between in which it could be missed. There is no safety net here."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq import Broker
from rowq.engine import waiting
from rowq.engine.operation import Operation, SingleCall, Wait, take_each
from rowq.store.notify.notifier import Notification
from tests.support.database import KINDS, new_database

PATIENCE = 60
SOON = 30
"""Seconds: without a wake-up, a receive comes back when its patience is over."""


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(waiting, "SAFETY", 3600.0)
    with rowq.connect(f"sqlite:///{tmp_path / 'jobs.db'}", maintenance=False) as broker:
        broker.receive("q", wait=0.2)  # whoever waits first is woken once, as another process may have written before
        yield broker


def receiving(broker: Broker) -> Operation[list[rowq.Delivery]]:
    steps = broker._engine.verbs.receive("q", 1, PATIENCE, None, None, None, None)
    assert not isinstance(steps, SingleCall)
    return steps


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_send_after_any_step_of_a_receive_is_noticed_at_once(broker: Broker, after: int) -> None:
    taken = 0

    def take(step: Any) -> Any:
        nonlocal taken
        answer = broker._engine.driver._take(step)
        taken += 1
        if taken == after:
            broker.send("q", "x")
        return answer

    started = time.monotonic()
    assert [delivery.payload for delivery in take_each(receiving(broker), take)] == ["x"]
    assert time.monotonic() - started < SOON, "a wake-up was lost"


def test_whoever_goes_away_woken_wakes_the_next(broker: Broker) -> None:
    engine, steps = broker._engine, receiving(broker)
    step = next(steps)
    while not isinstance(step, Wait):
        step = steps.send(engine.driver._take(step))
    next_one = threading.Event()
    engine._room.enter("q", next_one.set)
    broker.send("q", "x")
    assert step.ticket.waiter.is_woken and not next_one.is_set()
    steps.close()
    assert next_one.wait(SOON)


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_is_told_of_what_is_not_there_to_see_yet(tmp_path: Path, kind: str) -> None:
    """Whoever is woken looks at once, and then waits for the next to come."""
    seen: list[int] = []
    url = new_database(kind, tmp_path).url
    with rowq.connect(url, maintenance=False) as broker, rowq.connect(url, maintenance=False) as other:

        def look(notification: Notification) -> None:
            seen.append(other.stats("q").ready)

        broker._engine.store.on_notification = look
        broker._engine.store.listeners = (look,)
        broker.send("q", "x")
        (delivery,) = broker.receive("q")
        broker.nack(delivery, delay=0)
    assert seen == [1, 1]
