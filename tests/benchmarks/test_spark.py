"""What rowq's source and sink are measured beside does the same work: the same rows come, and all of them go. Without a JVM."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from pyspark.sql import Row

import rowq
from benchmarks.servers import Host
from benchmarks.spark import payload, reading, writing
from benchmarks.spark.tuples import COLUMNS, TupleReader
from rowq.spark.tables import Piece, open_tabular
from tests.support.asking import ask
from tests.support.servers import shared_postgresql

COUNT = 11


@pytest.fixture
def url() -> Iterator[str]:
    with Host(shared_postgresql()).database() as url:
        yield url


@pytest.mark.parametrize("by", ["cursor", "stream"])
def test_tuples_and_arrow_are_the_rows_that_rowq_reads(url: str, by: str) -> None:
    with rowq.connect(url) as broker, open_tabular(url) as tabular:
        broker.send_many(payload.QUEUE, list(range(COUNT)))
        batches = tabular.read(Piece("messages", 0, 1 << 40), queues=[payload.QUEUE], states=["ready"], columns=COLUMNS)
        expected = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    reader = TupleReader(url, by)
    parts = reader.partitions()
    rows = [row for part in parts for row in reader.read(part)]
    moment = COLUMNS.index("sent_at")  # which rowq gives as a time, and the database as a number
    found = [(*row[:moment], *row[moment + 1 :]) for row in rows]
    assert sorted(found) == sorted((*row[:moment], *row[moment + 1 :]) for row in expected)
    assert (len(parts), len(found)) == (2, COUNT)
    reading._read_by_adbc(url, COUNT)


def test_a_partition_is_copied_row_by_row_into_a_plain_table(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(writing._TABLE)
    writing._copy(url, writing._TWO, iter([Row(queue="a", payload='{"ä":1}')]))
    writing._copy(url, writing._SIX, iter([Row(id=7, queue="b", priority=0, sent_at=1, attempts=0, payload="2")]))
    assert ask(url, "SELECT queue, payload FROM plain ORDER BY id") == [("a", '{"ä":1}'), ("b", "2")]


def test_all_payloads_are_as_large_as_the_notes_say() -> None:
    assert len(payload._PATTERN.format(padding=payload._PADDING) % (payload._FIRST + 10**9 - 1)) == payload.SIZE
