"""Servers of each kind that a test may stop, and databases on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.rivals.process import Rival
from tests.support.servers import MariadbServer, PostgresqlServer, fresh, own_mariadb, own_postgresql

OurServer = PostgresqlServer | MariadbServer
Start = Callable[..., Rival]

KINDS = ("postgresql", "mariadb")


@pytest.fixture(scope="session")
def begun() -> Iterator[dict[str, OurServer]]:
    servers: dict[str, OurServer] = {}
    yield servers
    for server in servers.values():
        server.close()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def server(kind: str, begun: dict[str, OurServer]) -> OurServer:
    if kind not in begun:
        begun[kind] = own_postgresql() if kind == "postgresql" else own_mariadb()
    begun[kind].start()  # a test that failed may have left it stopped
    return begun[kind]


@pytest.fixture
def url(server: OurServer) -> str:
    return fresh(server)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start("working", url, …)`: one more process. Nobody outlives the test."""
    started: list[Rival] = []

    def start_one(part: str, url: str, *arguments: object) -> Rival:
        started.append(Rival(part, url, tmp_path / f"{len(started)}-{part}.log", *arguments, package="tests.disasters"))
        return started[-1]

    yield start_one
    for rival in started:
        rival.clear_away()
