"""The caller's own connections, and the trouble that they have by themselves."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import psycopg
import pymysql

from tests.support.servers.mariadb import connected
from trust.torture.ways.hands import DriverFailed

ERRORS = (sqlite3.Error, psycopg.Error, pymysql.Error, OSError)
PATIENCE = 10
_ROWQS = frozenset({"timeout", "durability", "schema"})
"""Parameters of a URL that the driver does not know."""


class Own:
    """A connection that is opened when it is needed, and anew after it was lost."""

    def __init__(self, url: str, patience: int = PATIENCE) -> None:
        self._url = url
        self._patience = patience
        self._connection: Any = None
        self.audit_lines = "rowq_audit" if url.startswith("mariadb://") else "rowq_audit_lines"

    def ask(self, question: str) -> list[Any]:
        """All rows of one statement, which sees one moment."""
        with self._blamed():
            self._open()
            if isinstance(self._connection, psycopg.Connection):
                question = question.replace("rowq_", "rowq.rowq_")
            cursor = self._connection.cursor()
            cursor.execute(question)
            rows = list(cursor.fetchall())
            cursor.close()
            self._connection.rollback()
        return rows

    def begin(self) -> Any:
        """The connection, with a transaction open on it."""
        with self._blamed():
            self._open()
            if isinstance(self._connection, sqlite3.Connection):
                self._connection.execute("BEGIN IMMEDIATE")
            elif isinstance(self._connection, psycopg.Connection):
                self._connection.execute("SELECT 1")
            else:
                self._connection.begin()
        return self._connection

    def commit(self) -> None:
        with self._blamed():
            self._connection.commit()

    def roll_back(self) -> None:
        """A connection that cannot is closed, which comes to the same."""
        try:
            self._connection.rollback()
        except ERRORS:
            self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*ERRORS):
                connection.close()

    def _open(self) -> None:
        if self._connection is None:
            self._connection = _connected(self._url, self._patience)

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            yield
        except ERRORS as error:
            self.close()
            raise DriverFailed(error) from error


def _connected(url: str, patience: int) -> Any:
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///").partition("?")[0]
        return sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    if url.startswith("mariadb://"):
        return connected(url, autocommit=False, connect_timeout=patience, read_timeout=patience, write_timeout=patience)
    parts = urlsplit(url)
    meant_for_us = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name not in _ROWQS])
    # An answer of a server that is gone would be waited for until the system gives up.
    return psycopg.connect(
        parts._replace(query=meant_for_us).geturl(),
        connect_timeout=patience,
        options=f"-c statement_timeout={patience}s",
        tcp_user_timeout=patience * 1000,
    )
