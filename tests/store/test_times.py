"""When a receive looks at due times, and from where on: not over what is long gone, and yet past nothing that came late."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from rowq import Broker, ManualClock
from rowq.store.due_time import FULL_LOOK_EVERY_MS, LOOK_EVERY_MS

BEGINNING = -1


@pytest.fixture
def broker(path: Path, clock: ManualClock) -> Iterator[Broker]:
    with rowq.connect(f"sqlite:///{path}", clock=clock, maintenance=False) as broker:
        broker.receive("q")
        yield broker


def floor_of_the_next_look(broker: Broker, clock: ManualClock) -> int | None:
    """None while it is too early."""
    look = broker._engine.store.times.look("q", clock.now())
    return None if look is None else look.floor


def test_nobody_looks_again_at_once(broker: Broker, clock: ManualClock) -> None:
    clock.advance((LOOK_EVERY_MS - 1) / 1000)
    assert floor_of_the_next_look(broker, clock) is None


def test_the_next_look_begins_shortly_before_the_last_one(broker: Broker, clock: ManualClock) -> None:
    """Where others still see what is gone, its remains would be walked over again. A second is left to those who were about to commit."""
    looked_at = clock.now()
    clock.advance(LOOK_EVERY_MS / 1000)
    assert floor_of_the_next_look(broker, clock) == looked_at - 1_000


def test_once_a_second_a_look_begins_at_the_beginning(broker: Broker, clock: ManualClock) -> None:
    clock.advance(FULL_LOOK_EVERY_MS / 1000)
    assert floor_of_the_next_look(broker, clock) == BEGINNING


def test_a_clock_that_goes_back_is_looked_after_from_the_beginning(broker: Broker, clock: ManualClock) -> None:
    clock.advance(-10)
    assert floor_of_the_next_look(broker, clock) == BEGINNING


def test_what_was_not_taken_up_is_looked_for_at_once(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", range(500), delay=10)
    clock.advance(10)
    broker.receive("q")
    assert floor_of_the_next_look(broker, clock) is not None
