"""A log stream and an archive keep up with processes that write: not one line is missing, and none is there twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import rowq
from rowq.spark import pipeline
from rowq.spark.pipeline.archiving import Archiver
from rowq.store.stream.segment import KINDS
from tests.rivals.process import Rival
from tests.support.asking import ask
from tests.support.database import PostgresqlDatabase
from tests.support.patience import eventually

WITHIN = 240
FULL = pytest.mark.prove("processes that write while a query and archives follow, 20 to 40 s; test_log and test_archive stand for it")


@pytest.fixture
def followed() -> str:
    """Where several can write at a time, so that lines appear in another order than they are numbered."""
    with rowq.connect(url := PostgresqlDatabase().url) as broker:
        broker.configure("orders", keep="body")
    return url


@pytest.fixture
def writers(request: pytest.FixtureRequest, followed: str, tmp_path: Path) -> Iterator[list[Rival]]:
    started = [Rival("followed", followed, tmp_path / f"{n}.log", f"writer-{n}", package="tests.spark") for n in range(request.param)]
    yield started
    for writer in started:
        writer.clear_away()


def follow(spark: SparkSession, url: str, folder: Path, **trigger: Any) -> StreamingQuery:
    stream = spark.readStream.format("rowq").options(url=url, mode="log", table="audit", pollInterval="20ms").load()
    writer = stream.writeStream.format("parquet").options(checkpointLocation=str(folder / "checkpoint"), path=str(folder / "out"))
    return writer.trigger(**trigger).start()


def has_followed(query: StreamingQuery, batches: int) -> bool:
    if (failure := query.exception()) is not None:
        raise failure
    return len([progress for progress in query.recentProgress if progress["numInputRows"]]) >= batches


TABLES = {"history": "rowq_history", "audit": "rowq_audit_lines"}


def written(url: str, kind: str) -> list[int]:
    return [line for (line,) in ask(url, f"SELECT id FROM rowq.{TABLES[kind]} WHERE queue <> '' ORDER BY id")]


def archive_some(spark: SparkSession, url: str, lake: Path) -> list[int]:
    """How many lines of each kind were archived, once some of each wait for it."""
    with Archiver(url, lake) as archiver:
        for kind in KINDS:
            eventually(lambda kind=kind: archiver.pending(kind), within=WITHIN)  # type: ignore[misc]
    return [archived.lines for archived in pipeline.archive(spark, url, lake)]


@pytest.mark.parametrize(
    ("writers", "runs", "batches"), [pytest.param(2, 2, 2, marks=FULL), pytest.param(4, 3, 5, marks=FULL)], indirect=["writers"]
)
def test_writers_are_followed_and_archived_line_by_line(
    spark: SparkSession, followed: str, writers: list[Rival], runs: int, batches: int, tmp_path: Path
) -> None:
    for writer in writers:
        writer.await_said("wrote", within=WITHIN)
    query = follow(spark, followed, tmp_path, processingTime="0 seconds")
    try:
        archived = [archive_some(spark, followed, tmp_path / "lake") for _ in range(runs)]
        eventually(lambda: has_followed(query, batches), within=WITHIN)
    finally:
        query.stop()
    assert all(all(lines) for lines in archived), "nothing was written meanwhile"
    for writer in writers:
        writer.finish(WITHIN)
    pipeline.archive(spark, followed, tmp_path / "lake")
    assert follow(spark, followed, tmp_path, availableNow=True).awaitTermination(WITHIN)

    lines = {kind: written(followed, kind) for kind in KINDS}
    sent, acked = (sum(counts) for counts in zip(*(said for writer in writers for said in writer.said("wrote")), strict=True))
    assert len(lines["history"]) == acked
    assert ask(followed, "SELECT count(*) FROM rowq.rowq_audit_lines WHERE event = 'enqueued'") == [(sent,)]
    for kind in KINDS:
        assert sorted(row.line for row in pipeline.read_lake(spark, tmp_path / "lake", kind).select("line").collect()) == lines[kind]
    assert sorted(row.line for row in spark.read.parquet(str(tmp_path / "out")).select("line").collect()) == lines["audit"]
