"""Every contract test runs on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowq import Broker, ManualClock
from tests.support.blocking import LoopThread
from tests.support.harness import BACKENDS, Harness, harness_for


@pytest.fixture(params=list(BACKENDS))
def harness(request: pytest.FixtureRequest, tmp_path: Path, loop: LoopThread) -> Iterator[Harness]:
    with harness_for(request.param, tmp_path, loop) as harness:
        yield harness


@pytest.fixture
def broker(harness: Harness) -> Broker:
    return harness.broker


@pytest.fixture
def clock(harness: Harness) -> ManualClock:
    return harness.clock
