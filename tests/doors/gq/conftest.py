"""A database of every kind, with a clock that only the test moves; and one where time passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rowq
from rowq import Broker, ManualClock
from tests.support.database import Database


@pytest.fixture
def still(database: Database, clock: ManualClock) -> Iterator[Broker]:
    with rowq.connect(database.url, clock=clock, upkeep=False) as broker:
        yield broker


@pytest.fixture
def broker(database: Database) -> Iterator[Broker]:
    with rowq.connect(database.url) as broker:
        yield broker
