"""What a consumer has in flight is its own until the lease ends, and not a moment longer."""

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


def in_flight_with(deliveries: list[Delivery], until: float) -> InFlight:
    in_flight = InFlight(len(deliveries), 1, ThreadWait)
    assert in_flight.next() is Todo.FETCH
    in_flight.fetched(deliveries, until)
    return in_flight


def test_a_message_whose_lease_has_expired_is_not_begun(deliveries: list[Delivery]) -> None:
    in_flight = in_flight_with(deliveries, time.monotonic())
    assert isinstance(in_flight.next(), Rest)
    assert in_flight.is_empty
    assert in_flight.next() is Todo.FETCH


def test_what_could_not_be_extended_is_lost_and_not_asked_for_again(deliveries: list[Delivery]) -> None:
    now = time.monotonic()
    in_flight = in_flight_with(deliveries, now + 60)
    lost, kept = deliveries
    in_flight.extended([lost.receipt, kept.receipt], [Outcome.STALE, Outcome.DONE], now + 90)
    assert (in_flight.is_lost(lost), in_flight.is_lost(kept)) == (True, False)
    assert in_flight.ending_before(now + 100) == [kept.receipt]
