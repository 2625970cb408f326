"""A broker on every kind of database, in process and over HTTP; and processes that consume."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from tests.rivals.process import Start, starting
from tests.support.blocking import LoopThread
from tests.support.database import KINDS, new_database
from tests.support.server import Server


@pytest.fixture(params=[*KINDS, *(f"{kind}-http" for kind in KINDS)])
def broker(request: pytest.FixtureRequest, tmp_path: Path, loop: LoopThread) -> Iterator[rowq.Broker]:
    kind, _, is_served = request.param.partition("-")
    database = new_database(kind, tmp_path)
    if not is_served:
        with rowq.connect(database.url) as broker:
            yield broker
        return
    server = Server(loop, database.url)
    try:
        with rowq.connect(server.url) as broker:
            yield broker
    finally:
        server.stop()


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return new_database("sqlite", tmp_path).url


@pytest.fixture
def server(file_url: str, loop: LoopThread) -> Iterator[Server]:
    server = Server(loop, file_url)
    yield server
    server.stop()


@pytest.fixture
def remote(server: Server) -> Iterator[rowq.Broker]:
    """One that soon gives up on a server that is away."""
    with rowq.connect(f"{server.url}?timeout=0.2") as broker:
        yield broker


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path, "tests.workers") as start:
        yield start


@pytest.fixture
def file_broker(file_url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(file_url) as broker:
        yield broker
