"""Reports: what happened in queues, from a lake, a database, or both, as DataFrames and as Parquet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rowq.connect import open_engine
from rowq.errors import InvalidArgument
from rowq.spark.pipeline import measure
from rowq.spark.pipeline.archiving import refuse_restored
from rowq.spark.pipeline.lake import MOMENT, Lake, another_database, between, read_files, read_lines
from rowq.spark.pipeline.manifest import Snapshot
from rowq.spark.tables import SCHEMAS, open_tabular
from rowq.store.stream.segment import KINDS, Kind, count_lines, list_segments

_COLUMNS: dict[Kind, Sequence[str]] = {"history": measure.LIFE, "audit": SCHEMAS["audit"].names}
"""All columns that a report reads: payloads are not fetched."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where the lines come from. With both, the lake provides all that is in it, and the database what has been added since."""

    lake: str | os.PathLike[str] | None = None
    url: str | None = None
    queues: Sequence[str] = ()
    """None named: all."""
    since_ms: int | None = None
    until_ms: int | None = None


class Reports(NamedTuple):
    """One DataFrame per measurement."""

    throughput: DataFrame
    latency: DataFrame
    retries: DataFrame
    dead_letters: DataFrame
    failures: DataFrame
    consumers: DataFrame
    depth: DataFrame


def reports(spark: SparkSession, source: Source, *, persist: bool = False) -> Reports:
    """Reads nothing before a DataFrame is asked for its rows. `persist`: the lines are read once for all reports, and cached by Spark for
    as long as the session lives.

    >>> reports(spark, Source(url="sqlite:///jobs.db")).failures.show()  # doctest: +SKIP
    """
    history, audit = (_lines(spark, source, kind) for kind in KINDS)
    if persist:
        history, audit = history.persist(), audit.persist()
    lives = measure.lives(history, audit)
    return Reports(
        throughput=measure.throughput(audit),
        latency=measure.latency(lives),
        retries=measure.retries(audit),
        dead_letters=measure.dead_letters(audit),
        failures=measure.failures(audit),
        consumers=measure.consumers(audit, lives),
        depth=measure.depth(audit),
    )


def write_reports(found: Reports, folder: str | os.PathLike[str]) -> None:
    """Each as Parquet, in a folder of its name; an existing one is replaced."""
    for name, frame in found._asdict().items():
        frame.coalesce(1).write.mode("overwrite").parquet(os.path.join(os.fspath(folder), name))  # noqa: PTH118  # may be any URL


def _lines(spark: SparkSession, source: Source, kind: Kind) -> DataFrame:
    if source.lake is None and source.url is None:
        raise InvalidArgument("a report needs a lake, a database, or both")
    lake = None if source.lake is None else Lake(source.lake)
    snapshot = None if lake is None else lake.snapshot()
    frames = [] if lake is None or snapshot is None else [read_files(spark, lake, kind, snapshot.files_of(kind)).select(*_COLUMNS[kind])]
    if source.url is not None:
        frames += _hot_lines(spark, source.url, kind, lake, snapshot)
    frame = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
    if source.queues:
        frame = frame.where(F.col("queue").isin(*source.queues))
    return between(frame, MOMENT[kind], source.since_ms, source.until_ms)


def _hot_lines(spark: SparkSession, url: str, kind: Kind, lake: Lake | None, snapshot: Snapshot | None) -> list[DataFrame]:
    """Settled lines that the lake does not have yet."""
    with closing(open_engine(url, maintenance=False, migrate=False)) as engine, closing(open_tabular(url)) as tabular:
        if lake is not None and snapshot is not None and snapshot.identity != engine.dialect.identity():
            raise another_database(lake.storage.root)
        held = None if snapshot is None else snapshot.last_segment(kind)
        first, last = 1 if held is None else held.last + 1, tabular.settled(kind)
        with engine.dialect.reading() as session:
            if snapshot is not None:
                refuse_restored(kind, list_segments(session, snapshot.lake, kind), snapshot)
            count = count_lines(session, kind, first, last)[0]
    return [read_lines(spark, url, kind, first, max(first, last), count, _COLUMNS[kind])]
