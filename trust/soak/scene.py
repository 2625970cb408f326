"""The databases that are soaked, each with a `rowq serve` in front of it: real processes, on a real disk, durable as by default."""

from __future__ import annotations

import secrets
import sqlite3
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.support.servers import own_postgresql
from tests.support.servers.server import Setting
from tests.support.serving import Served

POSTGRESQL: dict[str, Setting] = {
    "fsync": True,
    "full_page_writes": True,
    "synchronous_commit": "on",
    "shared_buffers": "512MB",
    "timezone": "UTC",
}
SECRET = secrets.token_hex(16)
"""The key to every server of this run."""
_PATIENCE = 60

Sizes = dict[str, int]


class Database(ABC):
    """What can be asked of a database from beside, while it is served."""

    url: str

    @abstractmethod
    def sizes(self) -> Sizes:
        """`file`: bytes of all that is stored; `log`: of what is written ahead; `free`: of the file, what waits to be used again."""

    @abstractmethod
    def rows(self) -> dict[str, int]:
        """How many there are in each table."""

    def processes(self) -> list[psutil.Process]:
        """Those that work for the server, beside itself."""
        return []

    @abstractmethod
    def close(self) -> None: ...


class Sqlite(Database):
    def __init__(self, file: Path) -> None:
        self._file = file
        self.url = f"sqlite:///{file}"
        self._looking: sqlite3.Connection | None = None

    def sizes(self) -> Sizes:
        connection = self._connection()
        page, free = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "freelist_count"))
        return {"file": self._file.stat().st_size, "log": _size(Path(f"{self._file}-wal")), "free": page * free}

    def rows(self) -> dict[str, int]:
        connection = self._connection()
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'rowq%'")]
        return {table: connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in tables}

    def close(self) -> None:
        if self._looking is not None:
            self._looking.close()

    def _connection(self) -> sqlite3.Connection:
        """Made when the server has made the file."""
        self._looking = self._looking or sqlite3.connect(f"{self._file.as_uri()}?mode=ro", uri=True, timeout=_PATIENCE)
        return self._looking


class Postgresql(Database):
    def __init__(self, url: str) -> None:
        self.url = url
        self._looking = psycopg.connect(url, autocommit=True)
        self._me = self._looking.info.backend_pid

    def sizes(self) -> Sizes:
        """Tables with their indexes; PostgreSQL tells of free space only to whoever reads all of them, so of that it is silent."""
        file = self._one(
            "SELECT SUM(pg_total_relation_size(c.oid))::BIGINT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'rowq' AND c.relkind = 'r'"
        )
        return {"file": file or 0, "log": self._one("SELECT SUM(size)::BIGINT FROM pg_ls_waldir()"), "free": 0}

    def rows(self) -> dict[str, int]:
        tables = self._looking.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'rowq'").fetchall()
        return {table: self._one(f"SELECT COUNT(*) FROM rowq.{table}") for (table,) in tables}

    def processes(self) -> list[psutil.Process]:
        """Its backends; not the one that looks."""
        found = []
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s AND backend_type = 'client backend'"
        for (pid,) in self._looking.execute(query, [self._me]).fetchall():
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
        return found

    def close(self) -> None:
        self._looking.close()

    def _one(self, query: str) -> Any:
        row = self._looking.execute(query.encode()).fetchone()
        return row[0] if row else None


@contextmanager
def sqlite_file(folder: Path) -> Iterator[Database]:
    database = Sqlite(folder / "soak.db")
    try:
        yield database
    finally:
        database.close()


@contextmanager
def postgresql(folder: Path) -> Iterator[Database]:
    folder.chmod(0o711)  # root runs PostgreSQL as somebody else, who must get through
    with own_postgresql(folder, **POSTGRESQL) as server:
        server.create_database("soak")
        database = Postgresql(server.url("soak"))
        try:
            yield database
        finally:
            database.close()


DATABASES: dict[str, Callable[[Path], Any]] = {"sqlite": sqlite_file, "postgresql": postgresql}


@contextmanager
def served(database: Database, folder: Path) -> Iterator[Served]:
    """With its defaults, and the key."""
    server = Served(folder, "--json", "--url", database.url, "--admin-port", "0", ROWQ_API_KEY=SECRET)
    try:
        server.announced()
        yield server
    finally:
        server.signal()
        with suppress(subprocess.TimeoutExpired):
            server.ended(_PATIENCE)
        server.close()


def _size(file: Path) -> int:
    with suppress(FileNotFoundError):
        return file.stat().st_size
    return 0
