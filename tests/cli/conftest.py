"""A database for each test, which the command line finds by ROWQ_URL, and the ways to run it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from tests.cli.driver import Run, Spawn


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path / 'queue.db'}"
    monkeypatch.setenv("ROWQ_URL", url)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return url


@pytest.fixture
def run(url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


@pytest.fixture
def spawn(url: str) -> Iterator[Spawn]:
    spawn = Spawn()
    yield spawn
    spawn.close()


@pytest.fixture
def broker(url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(url, maintenance=False) as broker:
        yield broker
