"""A ledger and a broker on one database of every kind, with a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rowq
from rowq import Broker, ManualClock
from rowq.spark.ledger import Ledger, open_ledger
from tests.support.database import Database


@pytest.fixture
def broker(database: Database, clock: ManualClock) -> Iterator[Broker]:
    with rowq.connect(database.url, clock=clock, maintenance=False) as broker:
        yield broker


@pytest.fixture
def ledger(database: Database, clock: ManualClock, broker: Broker) -> Iterator[Ledger]:
    with open_ledger(database.url, clock=clock) as ledger:
        yield ledger
