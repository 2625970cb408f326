"""The databases that tests run on: a file, or a fresh database on a real server."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

import rowq
from tests.support.servers import fresh, shared_mariadb, shared_postgresql
from tests.support.servers.mariadb import connected

KINDS = ("sqlite", "postgresql", "mariadb")
_OWN_IDENTITY = "UPDATE rowq_counters SET value = ABS(RANDOM() % 4611686018427387904) WHERE name = 'identity'"
"""A copy of a file is the same queue until it is told otherwise."""


class Database(ABC):
    """One that nobody else uses, with or without tables."""

    url: str

    @abstractmethod
    def connection(self) -> Any:
        """The application's own connection: it opens a transaction by itself, and commits when it is told to."""

    @abstractmethod
    def elsewhere(self) -> Database:
        """Another one of the same kind."""


class SqliteDatabase(Database):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / "jobs.db"
        self.path.write_bytes(_empty_file())
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute(_OWN_IDENTITY)
            connection.commit()
        self.url = f"sqlite:///{self.path}"

    def connection(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=10, check_same_thread=False)

    def elsewhere(self) -> SqliteDatabase:
        folder = self._folder / "elsewhere"
        folder.mkdir()
        return SqliteDatabase(folder)


class PostgresqlDatabase(Database):
    def __init__(self) -> None:
        self.url = fresh(shared_postgresql())

    def connection(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url)

    def elsewhere(self) -> PostgresqlDatabase:
        return PostgresqlDatabase()


class MariadbDatabase(Database):
    def __init__(self) -> None:
        self.url = fresh(shared_mariadb())

    def connection(self) -> Any:
        return connected(self.url, autocommit=False)

    def elsewhere(self) -> MariadbDatabase:
        return MariadbDatabase()


@cache
def _empty_file() -> bytes:
    """With rowq's tables and nothing in them: copied, not made anew for each test."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "empty.db")
        rowq.migrate(f"sqlite:///{path}")
        return path.read_bytes()


def new_database(kind: str, folder: Path) -> Database:
    if kind == "postgresql":
        return PostgresqlDatabase()
    return MariadbDatabase() if kind == "mariadb" else SqliteDatabase(folder)


def run(connection: Any, statement: str) -> Any:
    """A statement of the application's own; gives the cursor. Not every driver has a shorthand for it."""
    cursor = connection.cursor()
    cursor.execute(statement)
    return cursor
