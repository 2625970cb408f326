"""How SQLite runs named queries: without row locks, with lists as JSON, and without executemany for inserts."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from rowq.store.dialect import Row, Session
from rowq.store.query import LIST_PARAMETER, PARAMETER, VALUES, Queries

MAX_ROWS_AT_ONCE = 64
_LOCK_CLAUSE = re.compile(r"\s+FOR UPDATE[^\n]*\Z")
"""There is one writer at a time, so rows need no locks."""


class SqliteSession(Session):
    is_alone = True
    writes_runs = True

    def __init__(self, connection: sqlite3.Connection, queries: SqliteQueries) -> None:
        self._connection = connection
        self._cursor = connection.cursor()  # reused: connection.execute() creates a new cursor each time
        self._cursor.row_factory = None  # an application's connection may have one
        self._queries = queries
        self.execute = self._cursor.execute
        self._last_seq = 0

    def rows(self, query: str, /, **values: Any) -> list[Row]:
        return self._cursor.execute(self._queries.bind(query, values), values).fetchall()

    def run(self, query: str, /, **values: Any) -> int:
        return self._cursor.execute(self._queries.bind(query, values), values).rowcount

    def many(self, query: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        text = self._queries.positional.get(query) or self._queries.by_position(query, columns)
        if len(rows) == 1:
            self._cursor.execute(text, rows[0])
        elif self._queries.takes_several(query):
            self._insert(query, columns, rows)
        elif query == "insert_audit_run":
            for row in rows:  # after executemany the cursor would keep the last statement, and closing the connection leave the file open
                self._cursor.execute(text, row)
        else:
            self._cursor.executemany(text, rows)

    def _insert(self, query: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        """Several rows per statement. executemany releases the interpreter lock for every row, and winning it back costs more than the
        row if an event loop competes for it."""
        start, left = 0, len(rows)
        while left:
            size = min(left, MAX_ROWS_AT_ONCE)
            values = tuple(chain.from_iterable(rows[start : start + size]))
            self._cursor.execute(self._queries.of_several(query, columns, size), values)
            start, left = start + size, left - size

    def draw_seqs(self, count: int) -> int:
        last, self._last_seq = self._last_seq, self._last_seq + count
        if self.execute(self._queries.raise_seq, (self._last_seq, last)).rowcount == 0:
            self._last_seq = self.execute(self._queries.draw_seqs, (count,)).fetchall()[0][0]
        return self._last_seq - count + 1

    def insert_leased_alike(self, tokens: dict[int, int], values: dict[str, Any]) -> None:
        self.run("insert_leased_alike", tokens=msgspec.json.encode(tokens).decode(), **values)

    def install(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self._connection.execute(statement)

    def stream(self, query: str, /, **values: Any) -> Iterator[Row]:
        yield from self._connection.execute(self._queries.bind(query, values), values)


class SqliteQueries(Queries):
    """A list is bound as a JSON array. A list of one value is bound directly: opening json_each costs more than a whole lookup."""

    def __init__(self) -> None:
        super().__init__("sqlite", lambda text: _LOCK_CLAUSE.sub("", text))
        self._several: dict[tuple[str, int], str] = {}
        self.draw_seqs = self.by_position("draw_seqs", ("count",))
        self.raise_seq = self.by_position("raise_seq", ("last", "known"))
        self._values = {name: match for name in self.names() if (match := VALUES.search(self[name]))}
        self._of_one = {name: LIST_PARAMETER.sub(r":\1", self[name]) for name in self.names()}
        self._of_many = {name: LIST_PARAMETER.sub(r"SELECT value FROM json_each(:\1)", self[name]) for name in self.names()}

    def takes_several(self, query: str) -> bool:
        """Whether it is an insert whose VALUES can be repeated."""
        return query in self._values

    def of_several(self, query: str, columns: tuple[str, ...], count: int) -> str:
        """The insert with `count` rows of values."""
        known = self._several.get((query, count))
        if known is None:
            match, text = self._values[query], self[query]
            place = {column: number for number, column in enumerate(columns, 1)}
            rows = [PARAMETER.sub(lambda name, row=row: f"?{row * len(columns) + place[name[1]]}", match[1]) for row in range(count)]
            known = self._several[query, count] = f"{text[: match.start()]}VALUES {', '.join(rows)}{text[match.end() :]}"
        return known

    def of_one(self, query: str) -> str:
        """A query whose only parameter is a list, for one value by position."""
        return PARAMETER.sub("?1", self._of_one[query])

    def bind(self, query: str, values: dict[str, Any]) -> str:
        """The text to run; lists in `values` are replaced by what the text expects."""
        texts = self._of_one
        for name, value in values.items():
            if type(value) is list:
                if len(value) == 1:
                    values[name] = value[0]
                else:
                    values[name] = msgspec.json.encode(value).decode()
                    texts = self._of_many
        return texts[query]
