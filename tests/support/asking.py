"""A connection and a question to a database of any kind, past rowq."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg

from tests.support.servers.mariadb import connected


def connection_to(url: str) -> Any:
    """As the driver gives it; it commits each statement."""
    return psycopg.connect(url, autocommit=True) if url.startswith("postgresql://") else connected(url)


def ask(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """What the last statement answers."""
    with closing(connection_to(url)) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []
