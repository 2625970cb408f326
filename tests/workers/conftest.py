"""A broker on every kind of database, in process and over HTTP; and processes that consume."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rowq
from tests.rivals.process import Rival
from tests.support.blocking import LoopThread
from tests.support.database import KINDS, Database, new_database
from tests.support.server import Server

Start = Callable[..., Rival]


@pytest.fixture(scope="session")
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.stop()


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


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return new_database(request.param, tmp_path)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start("consuming", url, …)`: one more process. Nobody outlives the test."""
    started: list[Rival] = []

    def start_one(part: str, url: str, *arguments: object) -> Rival:
        started.append(Rival(part, url, tmp_path / f"{len(started)}-{part}.log", *arguments, package="tests.workers"))
        return started[-1]

    yield start_one
    for rival in started:
        rival.clear_away()


@pytest.fixture
def file_broker(file_url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(file_url) as broker:
        yield broker
