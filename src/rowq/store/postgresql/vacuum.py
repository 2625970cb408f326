"""Vacuum: removes the dead rows of the hot tables every few seconds. Autovacuum would come once a minute, and by then the ready table of
a busy queue has grown eightfold."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import psycopg

from rowq.clock import running
from rowq.store.postgresql.connection import PostgresqlConnections
from rowq.store.postgresql.errors import translate
from rowq.store.postgresql.session import PostgresqlQueries

_TABLES = {
    # The number of dead rows that makes a vacuum worthwhile, and the seconds until the next one.
    "ready": (2_000, 2.0),
    "leased": (2_000, 2.0),
    "scheduled": (5_000, 5.0),
    "expiring": (5_000, 5.0),
    "waiting_keys": (5_000, 5.0),
    "group_heads": (5_000, 5.0),
    "counters": (500, 5.0),
    "messages": (20_000, 60.0),
}
_SHARE = 20
"""Vacuuming may take 1/20 of the time: while a snapshot is held it removes nothing and takes longer each time."""


class Vacuum:
    def __init__(self, connections: PostgresqlConnections, queries: PostgresqlQueries) -> None:
        self._connections = connections
        self._queries = queries
        self._not_before: dict[str, float] = {}
        self._own: psycopg.Connection[Any] | None = None
        self._turn = threading.Lock()
        """Regular maintenance and an operator's `rowq maintain` may run at the same time."""

    def run(self) -> None:
        with self._turn:
            self._run()

    def _run(self) -> None:
        try:
            connection = self._own = self._own or self._connections.open_plain()
            dead = dict(connection.execute(self._text("count_dead_rows")).fetchall())
            for table, (worth, pause) in _TABLES.items():
                if dead.get(f"rowq_{table}", 0) >= worth and running() >= self._not_before.get(table, 0.0):
                    started = running()
                    connection.execute(self._text(f"vacuum_{table}"))
                    self._not_before[table] = running() + max(pause, (running() - started) * _SHARE)
        except psycopg.Error as error:
            self.close()
            raise translate(error, self._connections.where) from error

    def close(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            with suppress(psycopg.Error):
                own.close()

    def leave_to_parent(self) -> None:
        if self._own is not None:
            _inherited.append(self._own)
            self._own = None

    def _text(self, query: str) -> bytes:
        return self._queries.of_one(query).text


_inherited: list[psycopg.Connection[Any]] = []
"""Connections inherited by a forked child: closing them would end the parent's sessions."""
