"""Maintenance takes many transactions, and the clock may be set in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq import ManualClock
from rowq.connect import open_engine
from rowq.engine.engine import Engine
from rowq.engine.operation import Read, take_each
from tests.support.life import take

HOUR = 3600


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock, maintenance=False)
    yield engine
    engine.close()


def test_a_clock_that_is_set_back_during_maintenance_ends_no_fresh_lease(engine: Engine, clock: ManualClock, tmp_path: Path) -> None:
    """Where a clock is an hour ahead, what was received then has long run out; what is received after it was set right has not."""
    with rowq.connect(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock, maintenance=False) as broker:
        broker.send_many("q", range(2))
        take(broker, lease=10)
        clock.advance(HOUR)

        def step(step: Any) -> Any:
            answer = engine.driver._take(step)
            if isinstance(step, Read) and answer == ["q"]:
                clock.advance(-HOUR)
                take(broker, lease=10)
            return answer

        assert take_each(engine.maintenance.run_all(), step).lease_expired == 0
        assert broker.stats("q").leased == 2
