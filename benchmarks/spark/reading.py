"""A queue as a DataFrame, beside one process that reads the same rows as Arrow, and beside a source in Python that yields tuples."""

from __future__ import annotations

import time
from collections.abc import Callable

import adbc_driver_postgresql.dbapi as adbc
from pyspark.sql import DataFrame, SparkSession

import rowq
from benchmarks.harness import Bar, Bench, Claim, Contestant, Gauge, Scores, Timing, Turns, interleave
from benchmarks.postgresql.status_column import settle
from benchmarks.servers import Host
from benchmarks.spark.payload import QUEUE, messages, send
from benchmarks.spark.tuples import COLUMNS, ROWS, TupleSource

READ = Gauge("read", "/s")

_OURS, _ADBC = "rowq, batch read", "one process over ADBC, no Spark"
_TUPLES, _STREAMED = "a source of tuples, server cursor", "a source of tuples, binary stream"

Read = Callable[[], None]


def measure(bench: Bench, host: Host, spark: SparkSession) -> Scores:
    """All read one queue, which nobody changes."""
    count = bench.scale.read_rows
    with host.database() as url:
        with rowq.connect(url) as broker:
            broker.configure(QUEUE, audit=False)
        send(messages(spark, count), url)
        settle(url)
        spark.dataSource.register(TupleSource)
        ours = {"url": url, "queue": QUEUE, "states": "ready", "columns": ",".join(COLUMNS), "minPartitions": "2"}
        frames: dict[str, Callable[[], DataFrame]] = {
            _OURS: lambda: spark.read.format("rowq").options(**ours).load(),
            _TUPLES: lambda: spark.read.format(TupleSource.name()).options(url=url, by="cursor").load(),
            _STREAMED: lambda: spark.read.format(TupleSource.name()).options(url=url, by="stream").load(),
        }
        for frame in frames.values():  # which warms up as well
            assert frame().count() == count, "not all rows were read"
        contestants: dict[str, Contestant] = {
            _ADBC: lambda room: _turn(count, lambda: _read_by_adbc(url, count)),
            **{name: _through_spark(count, frame) for name, frame in frames.items()},
        }
        return interleave(bench, contestants)


def claims(scores: Scores) -> list[Claim]:
    return [
        Claim("batch read, of one process over ADBC", "%", scores.percent(READ, _OURS, _ADBC), Bar("at least", 40)),
        Claim("batch read to a source of tuples, server cursor", "x", scores.ratio(READ, _OURS, _TUPLES), Bar("at least", 2.5)),
        Claim("batch read to a source of tuples, binary stream", "x", scores.ratio(READ, _OURS, _STREAMED)),
    ]


def _through_spark(count: int, frame: Callable[[], DataFrame]) -> Contestant:
    """A new frame a turn: an old one has its plan already."""
    return lambda room: _turn(count, lambda: frame().write.format("noop").mode("overwrite").save())


def _read_by_adbc(url: str, count: int) -> None:
    with adbc.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(ROWS)
        with cursor.fetch_record_batch() as batches:
            assert sum(batch.num_rows for batch in batches) == count


def _turn(count: int, read: Read) -> Turns:
    started = time.perf_counter()
    read()
    yield {READ: Timing(time.perf_counter() - started, count)}
