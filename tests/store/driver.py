"""SQLite with somebody looking over its shoulder: told of every statement, before and after, and free to raise instead."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

Look = Callable[[sqlite3.Connection, str], None]


class Spy:
    def __init__(self) -> None:
        self.before: Look = lambda connection, statement: None
        self.after: Look = lambda connection, statement: None

    def connection(self) -> type[sqlite3.Connection]:
        """Whatever a connection executes goes through one of its cursors."""
        spy = self

        class WatchedCursor(sqlite3.Cursor):
            def execute(self, statement: str, *values: Any) -> Any:
                spy.before(self.connection, statement)
                super().execute(statement, *values)
                spy.after(self.connection, statement)
                return self

        class Watched(sqlite3.Connection):
            def cursor(self, *_: Any) -> Any:
                return super().cursor(WatchedCursor)

        return Watched


def ask(connection: sqlite3.Connection, statement: str) -> Any:
    """Past the spy."""
    return sqlite3.Cursor(connection).execute(statement).fetchone()[0]


def error(code: int) -> sqlite3.OperationalError:
    failure = sqlite3.OperationalError("as if SQLite had said so")
    failure.sqlite_errorcode = code
    return failure
