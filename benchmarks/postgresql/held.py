"""A snapshot that somebody holds open, as a report or a forgotten session does: nothing that dies meanwhile may be cleaned away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg


@contextmanager
def held_snapshot(url: str) -> Iterator[None]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")  # the first query takes the snapshot
        yield
        still = connection.execute("SELECT backend_xmin IS NOT NULL FROM pg_stat_activity WHERE pid = pg_backend_pid()").fetchone()
        assert still == (True,), "the snapshot was lost on the way"
        connection.execute("COMMIT")
