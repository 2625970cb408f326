"""Connections of drivers themselves."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import psycopg

from tests.support.database import MariadbDatabase, PostgresqlDatabase, SqliteDatabase
from tests.support.harness import Harness
from tests.support.holders.holder import Holder
from tests.support.servers.mariadb import connected
from tests.support.servers.server import Unavailable


def by_sqlite3(harness: Harness, *, commits_itself: bool = False) -> sqlite3.Connection:
    assert isinstance(harness.database, SqliteDatabase)
    return sqlite3.connect(harness.database.path, isolation_level=None if commits_itself else "DEFERRED", check_same_thread=False)


def by_psycopg(harness: Harness, *, commits_itself: bool = False) -> psycopg.Connection[Any]:
    assert isinstance(harness.database, PostgresqlDatabase)
    return psycopg.connect(harness.url, autocommit=commits_itself)


def by_pymysql(harness: Harness, *, commits_itself: bool = False) -> Any:
    assert isinstance(harness.database, MariadbDatabase)
    return connected(harness.url, autocommit=commits_itself)


def by_mysqlclient(harness: Harness, *, commits_itself: bool = False, charset: str = "utf8mb4") -> Any:
    parts = urlsplit(harness.url)
    connection = mysqlclient().connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=parts.path[1:],
        charset=charset,
        **dict(parse_qsl(parts.query)),
    )
    connection.autocommit(commits_itself)
    return connection


def mysqlclient() -> ModuleType:
    """It has to be compiled, and so is not everywhere."""
    try:
        import MySQLdb
    except ImportError:
        raise Unavailable("mysqlclient is not installed: `make test` builds it where Debian's libmariadb-dev and a compiler are") from None
    return MySQLdb  # type: ignore[no-any-return]


class DriverHolder(Holder):
    def __init__(self, harness: Harness, connect: Any, *, commits_itself: bool = False) -> None:
        super().__init__(harness)
        self.held = connect(harness, commits_itself=commits_itself)

    def run(self, statement: str) -> None:
        cursor = self.held.cursor()
        cursor.execute(statement)
        cursor.close()

    @contextmanager
    def nested(self) -> Iterator[None]:
        self.run("SAVEPOINT own")
        try:
            yield
        except BaseException:
            self.run("ROLLBACK TO SAVEPOINT own")
            raise
        finally:
            self.run("RELEASE SAVEPOINT own")

    def commit(self) -> None:
        self.held.commit()

    def rollback(self) -> None:
        self.held.rollback()

    def close(self) -> None:
        self.held.close()
