"""One SQLite file for everybody, and the processes that share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rowq
from tests.rivals.process import Rival

Start = Callable[..., Rival]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def broker(url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(url) as broker:
        yield broker


@pytest.fixture
def start(url: str, tmp_path: Path) -> Iterator[Start]:
    """`start("sending", …)`: one more process on the file. Nobody outlives the test."""
    started: list[Rival] = []

    def start_one(part: str, *arguments: object, query: str = "") -> Rival:
        started.append(Rival(part, url + query, tmp_path / f"{len(started)}-{part}.log", *arguments))
        return started[-1]

    yield start_one
    for rival in started:
        rival.clear_away()
