"""Databases that already have rowq's tables: lent to one test after the other, and as new each time."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from itertools import count

from tests.support.servers.mariadb import MariadbDatabases
from tests.support.servers.mariadb_slate import MariadbSlate
from tests.support.servers.postgresql_slate import PostgresqlSlate
from tests.support.servers.server import OwnServer, Server

Slate = PostgresqlSlate | MariadbSlate


def fresh(server: Server) -> str:
    """The URL of a database with rowq's tables and nothing in them.

    It is the caller's until `give_back`, or until the test is over: a fixture that outlives the test must not keep it. Whoever is
    still connected when it is lent anew is cut off.
    """
    return _POOLS.setdefault(server, Pool(server)).lend()


def give_back(url: str) -> None:
    """For a test that wants one after the other."""
    for pool in _POOLS.values():
        pool.take_back(url)


def give_back_all() -> None:
    """The test is over."""
    for pool in _POOLS.values():
        pool.take_back_all()


def close_pools() -> None:
    """The run is over."""
    while _POOLS:
        _POOLS.popitem()[1].close()


class Pool:
    """The databases that this process has on one server; `install` makes the tables in a new one."""

    def __init__(self, server: Server, install: Callable[[str], object] | None = None) -> None:
        self._server = server
        self._install = install or _install
        token = secrets.token_hex(4)
        self._names = (f"rowq_test_{token}_{number}" for number in count(1))
        self._free: list[Slate] = []
        self._lent: dict[str, Slate] = {}

    def lend(self) -> str:
        slate = self._wiped() or self._new()
        self._lent[slate.url] = slate
        return slate.url

    def take_back(self, url: str) -> None:
        slate = self._lent.pop(url, None)
        if slate is not None:
            self._free.append(slate)

    def take_back_all(self) -> None:
        for url in list(self._lent):
            self.take_back(url)

    def close(self) -> None:
        self.take_back_all()
        while self._free:
            self._discard(self._free.pop())

    def _wiped(self) -> Slate | None:
        """One that is free, wiped; one that cannot be wiped was damaged by its test, and goes."""
        while self._free:
            slate = self._free.pop()
            if slate.wipe():
                return slate
            self._discard(slate)
        return None

    def _new(self) -> Slate:
        name = next(self._names)
        self._server.create_database(name)
        url = self._server.url(name)
        self._install(url)
        return MariadbSlate(name, url) if isinstance(self._server, MariadbDatabases) else PostgresqlSlate(name, url)

    def _discard(self, slate: Slate) -> None:
        slate.close()
        if isinstance(self._server, OwnServer):
            return  # it takes its databases with it, and may be gone already
        for name in slate.databases:
            self._server.drop_database(name)


_POOLS: dict[Server, Pool] = {}


def _install(url: str) -> None:
    import rowq  # only here: benchmarks of others start servers too

    rowq.migrate(url)
