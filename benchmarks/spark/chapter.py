"""Spark on PostgreSQL: tables into Spark, DataFrames into a queue, and a queue drained by a stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

import rowq.spark
from benchmarks.harness import Bench, Chapter, Scores, Series
from benchmarks.servers import Host, on_postgresql
from benchmarks.spark.payload import SIZE
from rowq.errors import JavaNotFound
from rowq.spark.java import find_java
from tests.support.servers import Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME, TITLE = "spark", "Spark on PostgreSQL: reading, writing, draining"

_SETTINGS = {"spark.driver.memory": "2g", "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": 2}


def run(bench: Bench) -> Chapter:
    return on_postgresql(bench, NAME, TITLE, _measure)


def _measure(bench: Bench, host: Host) -> Chapter:
    with _session() as spark:
        from benchmarks.spark import draining, reading, writing  # they import PySpark, which may be missing

        read = reading.measure(bench, host, spark)
        written = writing.measure(bench, host, spark)
        drained = draining.measure(bench, host, spark)
        claims = [*reading.claims(read), *writing.claims(written), *draining.claims(drained, bench.scale)]
    return Chapter(NAME, TITLE, _series(read, written, drained), claims, _notes(bench, host))


def _series(*parts: Scores) -> list[Series]:
    return [series for scores in parts for series in scores.series()]


def _notes(bench: Bench, host: Host) -> list[str]:
    scale = bench.scale
    return [
        host.note,
        f"PySpark {version('pyspark')}, Java {find_java().version}, two tasks at a time on this machine; payloads of {SIZE} B of JSON.",
        f"Reading: {scale.read_rows:,} ready messages; all ways give the same six columns of the same two tables, joined.",
        "Through Spark, two ranges are read at a time into a sink that drops the rows, and planning counts. ADBC keeps no row either.",
        f"Writing: {scale.written_rows:,} rows that Spark has in memory. rowq stages and publishes them, once, however often a task runs.",
        "foreachPartition copies them in binary into a table with a primary key; a task that runs again would write them again.",
        "With six columns (id, queue, priority, time, attempts, payload) its table could serve as a queue; with two it holds payloads.",
        f"Draining: {scale.drained_batches} batches and a first one that does not count, into a sink that drops the rows; no audit.",
        "Its time is what Spark tells of its triggers.",
    ]


@contextmanager
def _session() -> Iterator[SparkSession]:
    """One that runs already is used, and left running: it is somebody else's."""
    if find_spec("pyspark") is None or find_spec("adbc_driver_postgresql") is None:
        raise Unavailable("PySpark is not installed: pip install 'rowq[spark]'")
    try:
        find_java()
    except JavaNotFound as missing:
        raise Unavailable(f"{missing}.") from None
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    spark = rowq.spark.session("local[2]", "rowq benchmarks", **_SETTINGS)
    try:
        yield spark
    finally:
        spark.stop()
