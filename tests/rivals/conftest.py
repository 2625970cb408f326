"""One database for everybody, of every kind, and the processes that share it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from tests.rivals.neighbour import moving_in
from tests.rivals.process import Start, starting
from tests.support.cover import cover
from tests.support.database import KINDS, Database, new_database
from tests.support.servers import shared_mariadb, shared_postgresql


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In `make test` each of them runs on one database; those that kill, on every one."""
    rivals = [item for item in items if item.path.parent == Path(__file__).parent]
    cover([item for item in rivals if not item.path.stem.startswith("test_killed")], "kind")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def database(kind: str, tmp_path: Path) -> Database:
    return new_database(kind, tmp_path)


@pytest.fixture
def url(database: Database) -> str:
    return database.url


@pytest.fixture
def bare_url(kind: str, tmp_path: Path) -> Iterator[str]:
    """Where nobody has made any tables yet."""
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobs.db'}"
        return
    server = shared_postgresql() if kind == "postgresql" else shared_mariadb()
    name = f"rowq_bare_{secrets.token_hex(4)}"
    server.create_database(name)
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture
def broker(url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(url) as broker:
        yield broker


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path, "tests.rivals") as start:
        yield start


@pytest.fixture(
    params=["beside", pytest.param("processes", marks=pytest.mark.prove("54 processes, 100 s; brokers in one process stand for it"))]
)
def begin(request: pytest.FixtureRequest, start: Start) -> Iterator[Start]:
    """Another caller on the same database, with a broker of its own: in threads of this process, or in a process of its own."""
    if request.param == "processes":
        yield start
        return
    with moving_in() as begin:
        yield begin


def with_option(url: str, option: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{option}"
