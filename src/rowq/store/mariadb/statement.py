"""Named queries as text with quoted values, because MariaDB's driver does not bind parameters. Every value goes through `quote`,
which takes less time for a batch than the driver's own quoting (decision 41)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rowq.store.dialect import Row
from rowq.store.query import VALUES, Queries

Quote = Callable[[Any], bytes]

_OF_ONE_TABLE = re.compile(r"FOR UPDATE OF [a-z]\b")
"""MariaDB has no OF: it locks the rows of all tables of a statement."""
_UPSERT = re.compile(r"ON CONFLICT \([a-z_, ]+\) DO UPDATE\s+SET ")
_UPSERT_NOTHING = re.compile(r"ON CONFLICT \(([a-z_]+)[a-z_, ]*\) DO NOTHING")
_EXCLUDED = re.compile(r"\bexcluded\.([a-z_]+)")
_FROM_KEYS = re.compile(r"(\sFROM rowq_(?!(?:history|streamed)\b)[a-z_]+(?: [a-z])?)(?=\n[^;]*\bIN \(:)")
"""Lists hold primary keys, except in queries of the history and the ledger."""

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)(?:\[\])?")
_DELETE = re.compile(r"(DELETE FROM rowq_(?!(?:dead|own_ids)\b)[a-z_]+\s+WHERE )(?:(?:\s+AND )?[a-z_]+ = :[a-z_]+)+")
"""Dead letters and own ids are deleted one by one: other indexes of their tables begin with the queue too, and for a list of keys MariaDB
might scan all rows of the queue in one of those."""
_EQUALITY = re.compile(r"([a-z_]+) = :([a-z_]+)")


class MariadbQueries(Queries):
    def __init__(self) -> None:
        super().__init__("mariadb", _render)
        self._statements = {name: Statement(self[name]) for name in self.names()}

    def statement(self, query: str) -> Statement:
        return self._statements[query]


def _render(text: str) -> str:
    text = _OF_ONE_TABLE.sub("FOR UPDATE", text)
    text = _UPSERT.sub("ON DUPLICATE KEY UPDATE ", text)
    text = _UPSERT_NOTHING.sub(r"ON DUPLICATE KEY UPDATE \1 = VALUES(\1)", text)
    text = _EXCLUDED.sub(r"VALUES(\1)", text)
    # Join in the written order and by the key: otherwise a small table is scanned, which waits for rows locked by other transactions.
    text = text.replace("\nJOIN ", "\nSTRAIGHT_JOIN ")
    return text if text.startswith("DELETE") else _FROM_KEYS.sub(r"\1 FORCE INDEX (PRIMARY)", text)


class Statement:
    """A query cut at its parameters."""

    def __init__(self, text: str) -> None:
        self._pieces, self._names = _cut(text)
        self._rows: _Rows | None = None
        if match := VALUES.search(text):
            self._rows = _Rows(text[: match.start()].encode() + b"VALUES ", *_cut(match[1]), text[match.end() :].encode())
        elif match := _DELETE.fullmatch(text):
            fields, names = zip(*_EQUALITY.findall(text), strict=True)
            row = ", ".join(f":{name}" for name in names)
            self._rows = _Rows(f"{match[1]}({', '.join(fields)}) IN (".encode(), *_cut(f"({row})"), b")", least=2)

    def of_one(self, values: Mapping[str, Any], quote: Quote) -> bytes:
        return self._pieces % tuple([quote(values[name]) for name in self._names])

    def of_many(self, columns: tuple[str, ...], rows: Sequence[Row], quote: Quote, most_bytes: int) -> Iterator[bytes]:
        """As few statements as possible; one with several rows does not get much longer than `most_bytes`."""
        if self._rows is not None and len(rows) > 1:
            return self._rows.statements(columns, rows, quote, most_bytes)
        return (self.of_one(dict(zip(columns, row, strict=True)), quote) for row in rows)

    def of_alike(
        self, common: Mapping[str, Any], columns: tuple[str, ...], rows: Iterable[Row], quote: Quote, most_bytes: int
    ) -> Iterator[bytes]:
        """The same for rows that differ in few columns: the others are quoted once."""
        if self._rows is None:
            raise ValueError("only a statement that takes rows can be given rows that are alike")
        return self._rows.filled(common, quote).statements(columns, rows, quote, most_bytes)


class _Rows:
    """A statement that takes any number of rows between a head and a tail. If `least` is 2, a single row is repeated: for a list of one
    row MariaDB does not use the index."""

    def __init__(self, head: bytes, row: bytes, names: tuple[str, ...], tail: bytes, *, least: int = 1) -> None:
        self._head, self._row, self._names, self._tail, self._least = head, row, names, tail, least

    def filled(self, common: Mapping[str, Any], quote: Quote) -> _Rows:
        """Fills in the values that all rows share."""
        values = [quote(common[name]).replace(b"%", b"%%") if name in common else b"%b" for name in self._names]
        return _Rows(self._head, self._row % tuple(values), tuple(name for name in self._names if name not in common), self._tail)

    def statements(self, columns: tuple[str, ...], rows: Iterable[Row], quote: Quote, most_bytes: int) -> Iterator[bytes]:
        in_order = None if self._names == columns else itemgetter(*[columns.index(name) for name in self._names])
        written: list[bytes] = []
        size = 0
        for row in rows:
            text = self._row % tuple(map(quote, row if in_order is None else in_order(row)))
            if written and size + len(text) > most_bytes:
                yield self._statement(written)
                written, size = [], 0
            written.append(text)
            size += len(text) + 1
        yield self._statement(written)

    def _statement(self, rows: list[bytes]) -> bytes:
        return self._head + b",".join(rows if len(rows) >= self._least else rows * self._least) + self._tail


def _cut(text: str) -> tuple[bytes, tuple[str, ...]]:
    """A template with a placeholder for each parameter, and their names in order."""
    pieces = _PARAMETER.split(text)
    return b"%b".join([piece.replace("%", "%%").encode() for piece in pieces[::2]]), tuple(pieces[1::2])


def quoting(*, backslashes: bool) -> Quote:
    """How values are quoted; `backslashes`: whether a backslash in a string is an escape character."""

    def quote(value: Any) -> bytes:
        kind = type(value)
        if kind is int:
            return b"%d" % value
        if value is None:
            return b"NULL"
        if kind is str:
            return b"'%b'" % escape(value.encode())
        if kind is bytes or kind is bytearray:
            return b"_binary'%b'" % escape(value)
        if kind is list:
            return _listed(value, quote)
        if isinstance(value, str):
            return b"'%b'" % escape(str(value).encode())
        if isinstance(value, bool | int):
            return b"%d" % value
        if kind is float:
            return repr(value).encode()
        raise TypeError(f"a {kind.__name__} cannot be stored")

    def escape(data: bytes) -> bytes:
        if backslashes and b"\\" in data:
            data = data.replace(b"\\", b"\\\\")
        return data.replace(b"'", b"''") if b"'" in data else data

    return quote


def _listed(values: list[Any], quote: Quote) -> bytes:
    """An empty list becomes NULL, which equals nothing."""
    if not values:
        return b"NULL"
    return b",".join([b"%d" % value for value in values] if type(values[0]) is int else [quote(value) for value in values])


def runs(rows: Sequence[Row]) -> list[tuple[Row, list[int]]]:
    """Expands rows of (first, last, …) into lists of numbers, grouped by the remaining columns."""
    return [
        (rest, [number for first, last, *_ in group for number in range(first, last + 1)])
        for rest, group in groupby(rows, key=lambda row: tuple(row[2:]))
    ]
