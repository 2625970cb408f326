"""The databases that are tortured: each on a disk that can be filled, and those that are servers behind a way that can be cut."""

from __future__ import annotations

import os
import secrets
import shutil
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from tests.support.asking import ask
from tests.support.disk import FillableDisk
from tests.support.servers import MariadbServer, OwnServer, PostgresqlServer, Unavailable, own_mariadb, own_postgresql
from tests.support.way import CuttableWay, by_way_of

KINDS = ("sqlite", "postgresql", "mariadb")
TIMEOUT = 5
"""Seconds that a call tries to reach a database that is away: shorter than many faults, so that errors are heard as well."""


class Database(ABC):
    kind: str
    url: str
    """Straight to it, for whoever looks at it afterwards."""
    played_urls: list[str]
    """For those who take part: whoever comes takes the next one."""
    disk: FillableDisk | None

    @abstractmethod
    def close(self) -> None:
        """And nothing is left of it."""


class SqliteFile(Database):
    kind = "sqlite"

    def __init__(self) -> None:
        self._place = Path(mkdtemp(prefix="rowq-torture-"))
        folder = self._place / "disk"
        self.path = folder / "jobs.db"
        try:
            folder.mkdir()
            self.disk = _disk(folder, self._place / "disk.img")
        except BaseException:
            shutil.rmtree(self._place, ignore_errors=True)
            raise
        self.url = f"sqlite:///{self.path}"
        self.played_urls = [f"{self.url}?timeout={TIMEOUT}"]

    def close(self) -> None:
        if self.disk is not None:
            self.disk.remove()
        shutil.rmtree(self._place, ignore_errors=True)


class ServedDatabase(Database):
    """On a server of ours, which syncs what it commits."""

    server: OwnServer
    way: CuttableWay

    def __init__(self) -> None:
        self._name = f"torture_{secrets.token_hex(4)}"
        self.disk = None
        self.way = CuttableWay(self.server.port)
        try:
            self._furnish(self._name)
        except BaseException:
            self.close()
            raise
        self.url = self.server.url(self._name)
        self.played_urls = [f"{url}&timeout={TIMEOUT}" for url in (by_way_of(self.way.port, self.url), self.url)]

    def close(self) -> None:
        self.way.close()
        self.server.stop()
        if self.disk is not None:
            self.disk.remove()
        self.server.close()

    @abstractmethod
    def cut_backends(self, share: float) -> int:
        """Some of the connections are ended by the server itself; how many."""

    @abstractmethod
    def _furnish(self, name: str) -> None:
        """Makes the database, and the disk that it lies on."""


class PostgresqlDatabase(ServedDatabase):
    """The tables lie on the disk that is filled, and the log does not: a server that cannot write its log ends."""

    kind = "postgresql"

    def __init__(self) -> None:
        self.server: PostgresqlServer = own_postgresql(
            fsync=True, full_page_writes=True, synchronous_commit=True, max_wal_size="256MB", shared_buffers="128MB"
        )
        super().__init__()

    def cut_backends(self, share: float) -> int:
        ours = f"datname = '{self._name}' AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND random() < {share}"
        return sum(ended for (ended,) in ask(self.url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}"))

    def _furnish(self, name: str) -> None:
        folder = self.server.place / "disk"
        folder.mkdir()
        self.disk = _disk(folder, self.server.place / "disk.img")
        self.server.account.give(folder)
        if self.disk is None:
            self.server.create_database(name)
        else:
            tablespace = f"CREATE TABLESPACE {name} LOCATION '{folder}'"
            ask(self.server.home, tablespace, f"CREATE DATABASE {name} TABLESPACE {name}")


class MariadbDatabase(ServedDatabase):
    """The folder of the database is a disk of its own; the logs lie elsewhere."""

    kind = "mariadb"

    def __init__(self) -> None:
        self.server: MariadbServer = own_mariadb(innodb_flush_log_at_trx_commit=1, innodb_buffer_pool_size="256M")
        super().__init__()

    def cut_backends(self, share: float) -> int:
        others = f"db = '{self._name}' AND id <> CONNECTION_ID() AND RAND() < {share}"
        found = ask(self.url, f"SELECT id FROM information_schema.processlist WHERE {others}")
        for (id,) in found:
            with suppress(Exception):  # it has just ended by itself
                ask(self.url, f"KILL {id}")
        return len(found)

    def _furnish(self, name: str) -> None:
        self.server.create_database(name)
        folder = self.server.data / name
        options = (folder / "db.opt").read_bytes()
        self.disk = _disk(folder, self.server.place / "disk.img")
        if self.disk is not None:
            (folder / "db.opt").write_bytes(options)
        for path in (folder, folder / "db.opt"):
            self.server.account.give(path)


def open_database(kind: str) -> Database:
    kinds: dict[str, type[Database]] = {"sqlite": SqliteFile, "postgresql": PostgresqlDatabase, "mariadb": MariadbDatabase}
    return kinds[kind]()


def _disk(folder: Path, image: Path) -> FillableDisk | None:
    """None where we may not mount one; where CI=true that is an error."""
    try:
        return FillableDisk(folder, image)
    except Unavailable:
        if os.environ.get("CI") == "true":
            raise
        return None
