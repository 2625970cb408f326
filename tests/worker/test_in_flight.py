"""What a consumer has in hand is its own until the lease ends, and not a moment longer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from rowq import Delivery, Outcome
from rowq.engine.waiting import ThreadWait
from rowq.worker.in_flight import InFlight, Rest, Todo


@pytest.fixture
def deliveries(tmp_path: Path) -> Iterator[list[Delivery]]:
    with rowq.connect(f"sqlite:///{tmp_path / 'jobs.db'}", maintenance=False) as broker:
        broker.send_many("q", range(2))
        yield broker.receive("q", max=2)


def hand_with(deliveries: list[Delivery], until: float) -> InFlight:
    hand = InFlight(len(deliveries), 1, ThreadWait)
    assert hand.next() is Todo.FETCH
    hand.fetched(deliveries, until)
    return hand


def test_what_has_run_out_in_the_hand_is_not_begun(deliveries: list[Delivery]) -> None:
    hand = hand_with(deliveries, time.monotonic())
    assert isinstance(hand.next(), Rest)
    assert hand.is_empty
    assert hand.next() is Todo.FETCH


def test_what_could_not_be_extended_is_lost_and_not_asked_for_again(deliveries: list[Delivery]) -> None:
    now = time.monotonic()
    hand = hand_with(deliveries, now + 60)
    lost, kept = deliveries
    hand.extended([lost.receipt, kept.receipt], [Outcome.STALE, Outcome.DONE], now + 90)
    assert (hand.is_lost(lost), hand.is_lost(kept)) == (True, False)
    assert hand.ending_before(now + 100) == [kept.receipt]
