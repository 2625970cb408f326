"""A database of every kind, with a clock that only the test moves; and one where time passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rowq import Broker, ManualClock
from rowq.compat.gq import Client
from tests.support.database import Database
from tests.worker.moving import MovingClock, moving_clock


@pytest.fixture
def still(database: Database, clock: ManualClock) -> Iterator[Client]:
    with Client(database.url, queue="q", clock=clock, maintenance=False) as client:
        yield client


@pytest.fixture
def moving(monkeypatch: pytest.MonkeyPatch) -> Iterator[MovingClock]:
    """It runs; consumers and databases go by it."""
    with moving_clock(monkeypatch) as clock:
        yield clock


@pytest.fixture
def client(database: Database, moving: MovingClock) -> Iterator[Client]:
    with Client(database.url, queue="q", clock=moving) as client:
        yield client


@pytest.fixture
def broker(client: Client) -> Broker:
    """The messages of the client, to look at."""
    return client.broker
