"""Servers of our own, which tests may stop and kill, and databases on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.disasters.proxy import CommitProxy, MariadbEar, PostgresqlEar
from tests.rivals.process import Start, starting
from tests.support.servers import MariadbServer, OwnServer, PostgresqlServer, fresh, own_mariadb, own_postgresql
from tests.support.way import by_way_of

Begin = Callable[[str], OwnServer]


_DISK = Path("/var/tmp")  # noqa: S108  # the folder below it gets a random name
"""MariaDB takes /dev/shm for persistent memory and maps its log there: nothing that was written would be lost with a killed server."""


@pytest.fixture(scope="session")
def begin() -> Iterator[Begin]:
    """One of each kind, begun when it is first asked for."""
    begun: dict[str, OwnServer] = {}

    def begin_one(kind: str) -> OwnServer:
        if kind not in begun:
            begun[kind] = own_postgresql() if kind == "postgresql" else own_mariadb(_DISK)
        begun[kind].start()  # a test that failed may have left it stopped
        return begun[kind]

    yield begin_one
    for server in begun.values():
        server.close()


@pytest.fixture
def kind() -> str:
    """Unless a test asks for another."""
    return "postgresql"


@pytest.fixture
def server(kind: str, begin: Begin) -> OwnServer:
    return begin(kind)


@pytest.fixture
def postgresql(begin: Begin) -> PostgresqlServer:
    server = begin("postgresql")
    assert isinstance(server, PostgresqlServer)
    return server


@pytest.fixture
def mariadb(begin: Begin) -> MariadbServer:
    server = begin("mariadb")
    assert isinstance(server, MariadbServer)
    return server


@pytest.fixture
def url(server: OwnServer) -> str:
    return fresh(server)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path, "tests.disasters") as start:
        yield start


@pytest.fixture
def proxy(kind: str, server: OwnServer) -> Iterator[CommitProxy]:
    proxy = CommitProxy(server.port, PostgresqlEar if kind == "postgresql" else MariadbEar)
    yield proxy
    proxy.close()


@pytest.fixture
def proxied_url(proxy: CommitProxy, url: str) -> str:
    """The same database, by way of the proxy."""
    return f"{by_way_of(proxy.port, url)}&timeout=60"
