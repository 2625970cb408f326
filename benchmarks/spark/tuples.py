"""The source that one writes first: rows of a query as tuples, in two ranges, from a cursor on the server; and the best that we could
make of it: the same as one stream, in chunks and in binary.

Spark's workers import this module, and nothing else of the benchmarks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

COLUMNS = ("seq", "queue", "priority", "sent_at", "attempts", "payload")
ROWS = """
SELECT m.seq, m.queue, m.priority, m.sent_at, p.attempts, m.payload
FROM rowq.rowq_ready p
JOIN rowq.rowq_messages m ON m.seq = p.seq
"""
_RANGE = "WHERE p.position BETWEEN %s AND %s AND m.seq BETWEEN %s AND %s"
_BOUNDS = "SELECT min(seq), max(seq) FROM rowq.rowq_messages"
_CHUNK = 1_000
_FETCHED = 10_000


class TupleSource(DataSource):
    """`by`: cursor, or stream."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> str:
        return "seq bigint, queue string, priority bigint, sent_at bigint, attempts bigint, payload binary"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  # all columns, always
        return TupleReader(self.options["url"], self.options["by"])


class Range(InputPartition):
    def __init__(self, first: int, last: int) -> None:
        super().__init__((first, last))
        self.first = first
        self.last = last


class TupleReader(DataSourceReader):
    def __init__(self, url: str, by: str) -> None:
        self._url = url
        self._read = {"cursor": _from_cursor, "stream": _from_stream}[by]

    def partitions(self) -> list[InputPartition]:
        with psycopg.connect(self._url) as connection:
            first, last = connection.execute(_BOUNDS).fetchone() or (0, -1)
        middle = (first + last) // 2
        return [Range(first, middle), Range(middle + 1, last)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Range)
        bounds = (partition.first, partition.last) * 2
        with psycopg.connect(self._url) as connection:
            yield from self._read(connection, bounds)


def _from_cursor(connection: psycopg.Connection, bounds: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    with connection.cursor("rows") as cursor:
        cursor.itersize = _FETCHED
        yield from cursor.execute(ROWS + _RANGE, bounds)


def _from_stream(connection: psycopg.Connection, bounds: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        yield from cursor.stream(ROWS + _RANGE, bounds, binary=True, size=_CHUNK)
