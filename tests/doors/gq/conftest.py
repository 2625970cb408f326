"""A database of every kind, with a clock that only the test moves; and one where time passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rowq
from rowq import Broker, ManualClock
from tests.support.database import Database
from tests.workers.moving import MovingClock, moving_clock


@pytest.fixture
def still(database: Database, clock: ManualClock) -> Iterator[Broker]:
    with rowq.connect(database.url, clock=clock, upkeep=False) as broker:
        yield broker


@pytest.fixture
def moving(monkeypatch: pytest.MonkeyPatch) -> Iterator[MovingClock]:
    """It runs; consumers and databases go by it."""
    with moving_clock(monkeypatch) as clock:
        yield clock


@pytest.fixture
def broker(database: Database, moving: MovingClock) -> Iterator[Broker]:
    with rowq.connect(database.url, clock=moving) as broker:
        yield broker
