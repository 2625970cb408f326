"""Servers of our own, which tests may stop and kill, and databases on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.disasters.proxy import CommitProxy, MariadbEar, PostgresqlEar
from tests.rivals.process import Rival
from tests.support.servers import MariadbServer, OwnServer, PostgresqlServer, fresh, own_mariadb, own_postgresql

Start = Callable[..., Rival]
Begin = Callable[[str], OwnServer]


@pytest.fixture(scope="session")
def begin() -> Iterator[Begin]:
    """One of each kind, begun when it is first asked for."""
    begun: dict[str, OwnServer] = {}

    def begin_one(kind: str) -> OwnServer:
        if kind not in begun:
            begun[kind] = own_postgresql() if kind == "postgresql" else own_mariadb()
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
    """`start("working", url, …)`: one more process. Nobody outlives the test."""
    started: list[Rival] = []

    def start_one(part: str, url: str, *arguments: object, package: str = "tests.disasters") -> Rival:
        started.append(Rival(part, url, tmp_path / f"{len(started)}-{part}.log", *arguments, package=package))
        return started[-1]

    yield start_one
    for rival in started:
        rival.clear_away()


@pytest.fixture
def proxy(kind: str, server: OwnServer) -> Iterator[CommitProxy]:
    proxy = CommitProxy(server.port, PostgresqlEar if kind == "postgresql" else MariadbEar)
    yield proxy
    proxy.close()


@pytest.fixture
def proxied_url(proxy: CommitProxy, url: str) -> str:
    """The same database, by way of the proxy."""
    return f"{by_way_of(proxy.port, url)}&timeout=5"


def by_way_of(port: int, url: str) -> str:
    """The same database through a port that listens in between, and so in the clear."""
    parts = urlsplit(url)
    options = "sslmode=disable&gssencmode=disable" if parts.scheme == "postgresql" else "ssl_disabled=true"
    return urlunsplit((parts.scheme, parts.netloc.replace(f":{parts.port}", f":{port}"), parts.path, options, ""))
