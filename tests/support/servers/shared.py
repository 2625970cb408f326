"""The servers that all tests of a run share: the first process that wants one starts it, the others join; or one that the user gave."""

from __future__ import annotations

import os
from functools import cache
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

from tests.support.servers.mariadb import MariadbDatabases, MariadbServer
from tests.support.servers.postgresql import PostgresqlDatabases, PostgresqlServer
from tests.support.servers.redis import RedisDatabases, RedisServer
from tests.support.servers.run import current_run
from tests.support.servers.server import OwnServer, Server

Kind = TypeVar("Kind", bound=OwnServer)

GIVEN = {"postgresql": "ROWQ_TEST_POSTGRESQL", "mariadb": "ROWQ_TEST_MARIADB", "redis": "ROWQ_TEST_REDIS"}
"""Variables that name a server to use instead: `ROWQ_TEST_POSTGRESQL=postgresql://user:password@host/database`."""


class _Given(Server):
    """The user's own server: we make databases there, and leave it running."""

    def __init__(self, url: str) -> None:
        self._given = url

    def url(self, database: str = "") -> str:
        return urlunsplit(urlsplit(self._given)._replace(path=f"/{database}"))


class GivenPostgresql(_Given, PostgresqlDatabases):
    """A user may lack the right to enter the database `postgres`; the one that the URL names is theirs."""

    @property
    def home(self) -> str:
        return self._given


class GivenMariadb(_Given, MariadbDatabases): ...


class GivenRedis(_Given, RedisDatabases): ...


@cache
def shared_postgresql() -> PostgresqlDatabases:
    given = os.environ.get(GIVEN["postgresql"])
    return GivenPostgresql(given) if given else _joined(PostgresqlServer)


@cache
def shared_mariadb() -> MariadbDatabases:
    given = os.environ.get(GIVEN["mariadb"])
    return GivenMariadb(given) if given else _joined(MariadbServer)


@cache
def shared_redis() -> RedisDatabases:
    given = os.environ.get(GIVEN["redis"])
    return GivenRedis(given) if given else _joined(RedisServer)


def _joined(kind: type[Kind]) -> Kind:
    run = current_run()
    address = run.folder / f"{kind.name}.address"
    with run.locked(kind.name):
        if address.exists():
            return kind.join(address.read_text(encoding="utf-8"))
        server = kind.begin(None, {})
        address.write_text(server.address(), encoding="utf-8")
        return server
