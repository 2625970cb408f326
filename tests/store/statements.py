"""Every named query as the statements it is run as, with values that fit."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from rowq.store.query import LIST_PARAMETER
from rowq.store.sqlite.dialect import Sqlite

Statement = tuple[str, dict[str, Any]]


def statements_of(dialect: Sqlite, query: str) -> list[Statement]:
    """A query with a list is another statement for one value than for several."""
    queries = dialect._queries
    lists = set(LIST_PARAMETER.findall(queries[query]))
    statements = []
    for values_of_list in ([1], [1, 2]) if lists else ([],):
        values: dict[str, Any] = {name: list(values_of_list) if name in lists else 1 for name in queries.parameters(query)}
        statements.append((queries.bind(query, values), values))
    return statements


def explain(dialect: Sqlite, query: str) -> list[tuple[Any, ...]]:
    return _ask("EXPLAIN", dialect, query)


def plan_of(dialect: Sqlite, query: str) -> list[str]:
    """How SQLite goes about it, for each of its statements."""
    return [row[3] for row in _ask("EXPLAIN QUERY PLAN", dialect, query)]


def _ask(how: str, dialect: Sqlite, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(dialect.path)) as connection:
        return [row for text, values in statements_of(dialect, query) for row in connection.execute(f"{how} {text}", values)]
