"""Every contract test runs on every database, and in `make prove` by every way to each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowq import Broker, ManualClock
from tests.support.blocking import LoopThread
from tests.support.cover import covering
from tests.support.harness import OPENERS, Harness, backends, harness_for


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A module whose verbs some brokers lack (test_verbs.py says which) names the ways that it takes."""
    if "harness" in metafunc.fixturenames:
        ways = getattr(metafunc.module, "WAYS", tuple(OPENERS))
        metafunc.parametrize("harness", covering(metafunc, *backends(ways)), indirect=True)


@pytest.fixture
def harness(request: pytest.FixtureRequest, tmp_path: Path, loop: LoopThread) -> Iterator[Harness]:
    with harness_for(request.param, tmp_path, loop) as harness:
        yield harness


@pytest.fixture
def broker(harness: Harness) -> Broker:
    return harness.broker


@pytest.fixture
def clock(harness: Harness) -> ManualClock:
    return harness.clock
