"""The archives of this tree and an environment with nothing else: made once, by the first process of a run that wants them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.environment import Environment, build
from tests.support.servers.run import current_run


@pytest.fixture(scope="session")
def archives() -> tuple[Path, Path]:
    """(the source archive, the wheel)"""
    run = current_run()
    with run.locked("archives"):
        return build(run.folder / "archives")


@pytest.fixture(scope="session")
def environment(archives: tuple[Path, Path]) -> Environment:
    run = current_run()
    with run.locked("environment"):
        return Environment(run.folder / "environment", archives[1])
