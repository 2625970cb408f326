"""A DataFrame into a queue, exactly once, beside `foreachPartition` with COPY into a plain table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

import psycopg
from pyspark.sql import DataFrame, Row, SparkSession

import rowq
from benchmarks.harness import Bar, Bench, Claim, Gauge, Scores, Timing, Turns, interleave
from benchmarks.servers import Host
from benchmarks.spark.payload import QUEUE, messages, send

WRITE = Gauge("write", "/s")

_OURS, _AUDITED, _COPY = "rowq, exactly once, no audit", "rowq, exactly once, audit", "foreachPartition with COPY"
_PLAIN = "CREATE TABLE plain (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue TEXT NOT NULL, payload TEXT NOT NULL)"
_WARMING = 10
"""So many times fewer rows are written beforehand."""

Write = Callable[[DataFrame], None]


def measure(bench: Bench, host: Host, spark: SparkSession) -> Scores:
    scale = bench.scale
    frames = [messages(spark, max(2, count)).persist() for count in (scale.written_rows // _WARMING, scale.written_rows)]
    try:
        for frame in frames:
            frame.count()  # now they are in memory
        return interleave(
            bench,
            {
                _OURS: lambda room: _ours(host, frames, audit=False),
                _AUDITED: lambda room: _ours(host, frames, audit=True),
                _COPY: lambda room: _copying(host, frames),
            },
        )
    finally:
        for frame in frames:
            frame.unpersist()


def claims(scores: Scores) -> list[Claim]:
    return [
        Claim("sink, no audit, to foreachPartition with COPY", "x", scores.ratio(WRITE, _OURS, _COPY), Bar("at least", 1.5)),
        Claim("sink, audit, to foreachPartition with COPY", "x", scores.ratio(WRITE, _AUDITED, _COPY)),
    ]


def _ours(host: Host, frames: list[DataFrame], *, audit: bool) -> Turns:
    with host.database() as url:
        with rowq.connect(url) as broker:
            broker.configure(QUEUE, audit=audit)
        yield from _turn(url, frames, lambda frame: send(frame, url), "rowq.rowq_ready")


def _copying(host: Host, frames: list[DataFrame]) -> Turns:
    with host.database() as url:
        with psycopg.connect(url) as connection:
            connection.execute(_PLAIN)
        yield from _turn(url, frames, lambda frame: frame.foreachPartition(partial(_copy, url)), "plain")


def _turn(url: str, frames: list[DataFrame], write: Write, table: str) -> Turns:
    few, many = frames
    write(few)
    started = time.perf_counter()
    write(many)
    took = time.perf_counter() - started
    count = many.count()
    with psycopg.connect(url) as connection:
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (few.count() + count,)
    yield {WRITE: Timing(took, count)}


def _copy(url: str, rows: Iterable[Row]) -> None:
    command = "COPY plain (queue, payload) FROM STDIN (FORMAT BINARY)"
    with psycopg.connect(url) as connection, connection.cursor() as cursor, cursor.copy(command) as copy:
        copy.set_types(["text", "text"])
        for row in rows:
            copy.write_row(row)
