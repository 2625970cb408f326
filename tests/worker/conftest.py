"""A broker on every kind of database, in process and over HTTP; and processes that consume."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import rowq
from rowq.client import retrying
from tests.rivals.process import Start, starting
from tests.support.blocking import LoopThread
from tests.support.cover import covering
from tests.support.database import KINDS, Database, new_database
from tests.support.server import Server
from tests.worker.moving import MovingClock, moving_clock


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test in process and over HTTP, on one of the databases each; in `make prove` on all."""
    if "broker" in metafunc.fixturenames:
        ways = covering(metafunc, KINDS, [f"{kind}-http" for kind in KINDS])
        metafunc.parametrize("broker", ways, indirect=True)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[MovingClock]:
    """It runs; consumers and databases go by it."""
    with moving_clock(monkeypatch) as clock:
        yield clock


def with_history(broker: rowq.Broker) -> rowq.Broker:
    """What was processed stays readable."""
    broker.configure("q", keep="outcome")
    return broker


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path, loop: LoopThread, clock: MovingClock) -> Iterator[rowq.Broker]:
    kind, _, is_served = request.param.partition("-")
    database = new_database(kind, tmp_path)
    if not is_served:
        with rowq.connect(database.url, clock=clock) as broker:
            yield with_history(broker)
        return
    server = Server(loop, database.url, clock=clock)
    try:
        with rowq.connect(server.url) as broker:
            yield with_history(broker)
    finally:
        server.stop()


@pytest.fixture
def file_database(tmp_path: Path) -> Database:
    return new_database("sqlite", tmp_path)


@pytest.fixture
def file_url(file_database: Database) -> str:
    return file_database.url


@pytest.fixture
def server(file_url: str, loop: LoopThread, clock: MovingClock) -> Iterator[Server]:
    server = Server(loop, file_url, clock=clock)
    yield server
    server.stop()


@pytest.fixture
def remote(server: Server) -> Iterator[rowq.Broker]:
    with rowq.connect(f"{server.url}?timeout=20") as broker:
        yield with_history(broker)


Away = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def away(server: Server, remote: rowq.Broker, monkeypatch: pytest.MonkeyPatch) -> Away:
    """`with away():` the server is away, and `remote` soon gives up on it. Once the two are connected, `remote` is patient."""

    @contextmanager
    def away() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(cast("Any", remote)._engine.driver, "_timeout", 0.1)
            patch.setattr(retrying, "GRACE", 200)
            server.stop_listening()
            server.hang_up()
            try:
                yield
            finally:
                server.listen_again()

    return away


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path, "tests.worker") as start:
        yield start


@pytest.fixture
def file_broker(file_url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(file_url) as broker:
        yield with_history(broker)
