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
def bare(archives: tuple[Path, Path]) -> Environment:
    """What `pip install rowq` gives."""
    return _installed(archives[1], "")


@pytest.fixture(scope="session")
def environment(archives: tuple[Path, Path]) -> Environment:
    """What `pip install 'rowq[server]'` gives."""
    return _installed(archives[1], "server")


def _installed(wheel: Path, extra: str) -> Environment:
    run, name = current_run(), f"environment-{extra}"
    with run.locked(name):
        return Environment(run.folder / name, wheel, extra)
