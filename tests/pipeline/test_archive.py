"""An archive has every line exactly once, wherever it was cut off, and the database gives up nothing that is not in the lake."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowq
from rowq import InvalidArgument, LakeError, LakeMismatch, ManualClock
from rowq.engine.engine import Engine
from rowq.spark import pipeline
from rowq.spark.pipeline import archiving
from rowq.spark.pipeline.archiving import KINDS, Archiver
from rowq.spark.pipeline.lake import Lake
from rowq.store.stream.segment import Commit, Kind, Plan, Purge
from tests.pipeline import dying
from tests.pipeline.looking import hot, lines
from tests.pipeline.past import work_off
from tests.support.database import Database, SqliteDatabase, new_database
from tests.support.patience import eventually


class Killed(Exception):
    """Stands for whatever ends a process."""


def archive(spark: SparkSession, url: str, lake: Path, **options: Any) -> int:
    return sum(archived.lines for archived in pipeline.archive(spark, url, lake, **options))


FROM_MARIADB = pytest.param("mariadb", marks=pytest.mark.prove("10 s; lines of an open transaction are read from MariaDB in `make test`"))


@pytest.fixture(params=["sqlite", "postgresql", FROM_MARIADB])
def any_database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return new_database(request.param, tmp_path)


def test_every_line_is_in_the_lake_once_and_more_come_with_the_next_run(spark: SparkSession, any_database: Database, lake: Path) -> None:
    url = any_database.url
    with rowq.connect(url, maintenance=False) as broker:
        work_off(broker, 6)
        assert archive(spark, url, lake, segment_lines=10) == 6 + 19  # and the line that tells of the settings
        assert archive(spark, url, lake) == 0
        work_off(broker, 2)
        assert archive(spark, url, lake) == 2 + 7
    for kind in KINDS:
        assert lines(spark, lake, kind) == hot(url, kind)
    rows = pipeline.read_lake(spark, lake, "history").orderBy("line").collect()
    assert [row.payload_text for row in rows[:2]] == ['{"order":0}', '{"order":1}']
    assert {(row.queue, row.outcome, row.headers, row.segment) for row in rows[:6]} == {("orders", "acked", '{"shop":"berlin"}', 1)}


def test_a_purge_leaves_the_database_and_not_the_lake(spark: SparkSession, database: Database, lake: Path) -> None:
    url = database.url
    with rowq.connect(url, maintenance=False) as broker:
        work_off(broker, 4)
        expected = {kind: hot(url, kind) for kind in KINDS}
        pipeline.archive(spark, url, lake, purge_after_ms=3_600_000)
        assert {kind: hot(url, kind) for kind in KINDS} == expected  # too young
        pipeline.archive(spark, url, lake, purge_after_ms=0)
        assert [hot(url, kind) for kind in KINDS] == [[], []]
        work_off(broker, 3)
        pipeline.archive(spark, url, lake, purge_after_ms=0)
        assert broker.stats("orders").finished == 0
    assert len(lines(spark, lake, "history")) == 7
    assert lines(spark, lake, "audit")[: len(expected["audit"])] == expected["audit"]


def fail_at(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """As if the process ended there: before what follows is begun."""
    acts: dict[str, type] = {"plan": Plan, "commit": Commit, "purge": Purge}
    real_act, real_write, real_publish = Engine.act, archiving.write, Lake.publish

    def act(engine: Any, what: Any, **options: Any) -> Any:
        result = real_act(engine, what, **options)
        if step in acts and isinstance(what, acts[step]) and result != (0, None):
            raise Killed(step)
        return result

    def after(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            real(*given, **options)
            raise Killed(step)

        return call

    def no_commit(engine: Any, what: Any, **options: Any) -> Any:
        if isinstance(what, Commit):
            raise Killed(step)
        return real_act(engine, what, **options)

    if step == "write":
        monkeypatch.setattr(archiving, "write", after(real_write))
    elif step == "verify":
        monkeypatch.setattr(Archiver, "verify", after(Archiver.verify))
    elif step == "publish":
        monkeypatch.setattr(Lake, "publish", after(real_publish))
    elif step == "before commit":
        monkeypatch.setattr(Engine, "act", no_commit)
    else:
        monkeypatch.setattr(Engine, "act", act)
        monkeypatch.setattr(archiving, "PURGE_PIECE", 3)


LATE = ("before commit", "purge")
EACH = pytest.mark.prove("5 s for each step and database; a process that dies behind each step, and the other steps here, stand for it")


@pytest.mark.parametrize("step", [*(pytest.param(step, marks=EACH) for step in ("plan", "write", "verify", "publish", "commit")), *LATE])
def test_an_archive_that_ends_at_any_step_goes_on(
    spark: SparkSession, database: Database, lake: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    url = database.url
    with rowq.connect(url, maintenance=False) as broker:
        work_off(broker, 3)
        expected = {kind: hot(url, kind) for kind in KINDS}
        with monkeypatch.context() as patch:
            fail_at(patch, step)
            with pytest.raises(Killed):
                pipeline.archive(spark, url, lake, segment_lines=8, purge_after_ms=0)
        work_off(broker, 2)
        expected = {kind: expected[kind] + [line for line in hot(url, kind) if line > expected[kind][-1]] for kind in KINDS}
        pipeline.archive(spark, url, lake, segment_lines=8, purge_after_ms=0)
        assert {kind: lines(spark, lake, kind) for kind in KINDS} == expected
        assert [hot(url, kind) for kind in KINDS] == [[], []]
        assert archive(spark, url, lake) == 0


@pytest.mark.timeout(600)
def test_a_process_that_dies_behind_each_step_leaves_an_archive_that_goes_on(
    spark: SparkSession, url: str, broker: rowq.Broker, lake: Path
) -> None:
    seen: dict[Kind, set[int]] = {kind: set() for kind in KINDS}
    for step in dying.STEPS:
        work_off(broker, 2)
        seen = {kind: seen[kind] | set(hot(url, kind)) for kind in KINDS}
        command = [sys.executable, "-m", "tests.pipeline.dying", step, url, str(lake)]
        died = subprocess.run(command, env=os.environ | dying.gateway_of(spark), capture_output=True, timeout=250, check=False)
        assert died.returncode == dying.STATUS, f"{step}: {died.stderr.decode()[-3_000:]}"
    pipeline.archive(spark, url, lake, segment_lines=dying.SEGMENT_LINES, purge_after_ms=0)
    assert {kind: lines(spark, lake, kind) for kind in KINDS} == {kind: sorted(seen[kind]) for kind in KINDS}
    assert [hot(url, kind) for kind in KINDS] == [[], []]


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_lines_of_a_transaction_that_is_still_open_come_with_the_next_run(
    spark: SparkSession, tmp_path: Path, lake: Path, kind: str
) -> None:
    database = new_database(kind, tmp_path)
    with rowq.connect(database.url, maintenance=False) as broker, closing(database.connection()) as connection:
        work_off(broker, 3)
        broker.within(connection).send("orders", "early, and late")
        work_off(broker, 3, "others")  # has higher numbers, and is there at once
        archive(spark, database.url, lake)
        connection.commit()
        archive(spark, database.url, lake)
        assert {each: lines(spark, lake, each) for each in KINDS} == {each: hot(database.url, each) for each in KINDS}


@pytest.mark.prove("8 s for each server; lines of a transaction that is still open stand for it")
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_four_writers_beside_an_archive_miss_no_line(spark: SparkSession, tmp_path: Path, lake: Path, kind: str) -> None:
    url = new_database(kind, tmp_path).url
    with rowq.connect(url, maintenance=False) as broker:
        broker.configure("orders", keep="body")
    is_enough, rounds = threading.Event(), [0] * 4

    def write(number: int) -> None:
        with rowq.connect(url, maintenance=False) as broker:
            while not is_enough.wait(0.01):
                broker.send_many("orders", list(range(5)))
                broker.ack_many(broker.receive("orders", max=5))
                rounds[number] += 1

    def archive_some() -> int:
        """Once every writer has written more than there was when it was called."""
        before = list(rounds)
        eventually(lambda: all(now > then for now, then in zip(rounds, before, strict=True)), within=60)
        return archive(spark, url, lake)

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, number) for number in range(4)]
        try:
            archived = [archive_some() for _ in range(2)]
        finally:
            is_enough.set()
        for writer in writers:
            writer.result(60)
    assert all(archived)
    archive(spark, url, lake)
    assert {each: lines(spark, lake, each) for each in KINDS} == {each: hot(url, each) for each in KINDS}


def test_two_archives_at_the_same_time_publish_a_segment_once(
    spark: SparkSession, url: str, broker: rowq.Broker, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_off(broker, 10)
    real_write = archiving.write

    def write_slowly(*given: Any) -> None:
        """Another one comes, and is through, while this one writes."""
        real_write(*given)
        with monkeypatch.context() as patch:
            patch.setattr(archiving, "write", real_write)
            pipeline.archive(spark, url, lake, kinds=("history",))

    monkeypatch.setattr(archiving, "write", write_slowly)
    pipeline.archive(spark, url, lake, kinds=("history",))
    assert lines(spark, lake, "history") == hot(url, "history")
    assert len(Lake(lake).snapshot().files) == 1
    assert len([path for path in lake.rglob("*.parquet") if "history" in path.parts]) == 1


def test_lines_that_retention_removed_meanwhile_are_not_missed(
    spark: SparkSession, url: str, broker: rowq.Broker, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_off(broker, 10)
    real_write = archiving.write

    def write_late(*given: Any) -> None:
        broker.purge("orders", states=["finished"])
        work_off(broker, 2)
        real_write(*given)

    monkeypatch.setattr(archiving, "write", write_late)
    pipeline.archive(spark, url, lake, kinds=("history",))
    monkeypatch.undo()
    pipeline.archive(spark, url, lake, kinds=("history",))
    assert lines(spark, lake, "history") == hot(url, "history")


def test_lines_that_did_not_arrive_are_told_and_nothing_is_purged(
    spark: SparkSession, url: str, broker: rowq.Broker, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_off(broker, 10)
    monkeypatch.setattr(archiving, "write", lambda *given: None)
    with pytest.raises(LakeError, match="has 10 lines, but 0 arrived"):
        pipeline.archive(spark, url, lake, purge_after_ms=0)
    assert len(hot(url, "history")) == 10
    monkeypatch.undo()
    pipeline.archive(spark, url, lake)
    assert lines(spark, lake, "history") == hot(url, "history")


def test_a_segment_that_is_only_planned_is_not_purged(url: str, broker: rowq.Broker, lake: Path) -> None:
    work_off(broker, 5)
    with Archiver(url, lake) as archiver:
        planned = archiver._engine.act(Plan(archiver._open("history").lake, "history", 5, 100))
        assert planned is not None and planned.lines == 5
        assert archiver.purge("history") == 0
    assert len(hot(url, "history")) == 5


def test_a_file_that_is_missing_keeps_the_lines_in_the_database(spark: SparkSession, url: str, broker: rowq.Broker, lake: Path) -> None:
    work_off(broker, 5)
    pipeline.archive(spark, url, lake)
    next(lake.joinpath("history").rglob("*.parquet")).unlink()
    with pytest.raises(LakeError, match="backup"):
        pipeline.archive(spark, url, lake, purge_after_ms=0)
    assert len(hot(url, "history")) == 5


def test_a_restored_database_is_refused(spark: SparkSession, tmp_path: Path, lake: Path) -> None:
    database = SqliteDatabase(tmp_path)
    with rowq.connect(database.url, maintenance=False) as broker:
        work_off(broker, 5)
    backup = tmp_path / "backup.db"
    shutil.copy(database.path, backup)
    pipeline.archive(spark, database.url, lake)
    for path in tmp_path.glob("jobs.db*"):
        path.unlink()
    shutil.copy(backup, database.path)
    with pytest.raises(LakeMismatch, match="restored from a backup"):
        pipeline.archive(spark, database.url, lake)
    with Archiver(database.url, lake) as archiver, pytest.raises(LakeMismatch):
        archiver.pending("history")
    with pytest.raises(LakeMismatch, match="restored from a backup"):
        pipeline.reports(spark, pipeline.Source(url=database.url, lake=lake))
    assert pipeline.reports(spark, pipeline.Source(lake=lake)).throughput.collect()[0]["acked"] == 5


def test_a_lake_that_another_run_has_just_gone_on_with_is_not_taken_for_an_old_one(
    spark: SparkSession, url: str, broker: rowq.Broker, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_off(broker, 2)
    pipeline.archive(spark, url, lake)
    before = Lake(lake).snapshot()
    work_off(broker, 2)
    pipeline.archive(spark, url, lake)
    with Archiver(url, lake) as archiver:
        read = iter([before, Lake(lake).snapshot()])
        monkeypatch.setattr(archiver.lake.manifest, "snapshot", lambda: next(read))
        assert archiver.pending("history") == 0


def test_a_restored_lake_is_refused(spark: SparkSession, url: str, broker: rowq.Broker, lake: Path, tmp_path: Path) -> None:
    work_off(broker, 5)
    pipeline.archive(spark, url, lake)
    shutil.copytree(lake, tmp_path / "backup")
    work_off(broker, 5)
    pipeline.archive(spark, url, lake)
    with pytest.raises(LakeMismatch, match="restore the lake from a newer backup"):
        pipeline.archive(spark, url, tmp_path / "backup")


def test_the_lake_of_another_database_is_refused(spark: SparkSession, url: str, broker: rowq.Broker, lake: Path, tmp_path: Path) -> None:
    work_off(broker, 2)
    pipeline.archive(spark, url, lake)
    other = new_database("sqlite", tmp_path).elsewhere().url
    with rowq.connect(other, maintenance=False) as stranger:
        work_off(stranger, 2)
    with pytest.raises(LakeMismatch, match="another database"):
        pipeline.archive(spark, other, lake)


def test_a_server_is_no_database(lake: Path) -> None:
    with pytest.raises(InvalidArgument, match="URL of its database"):
        Archiver("http://localhost:8080", lake)


def test_days_are_read_alone(spark: SparkSession, url: str, clock: ManualClock, lake: Path) -> None:
    with rowq.connect(url, maintenance=False, clock=clock) as broker:  # no midnight comes in between
        work_off(broker, 3)
    pipeline.archive(spark, url, lake)
    day = Lake(lake).snapshot().files_of("history")[0].date
    assert pipeline.read_lake(spark, lake, "history", since=day, until=day).count() == 3
    assert pipeline.read_lake(spark, lake, "history", since="2999-01-01").count() == 0
    assert pipeline.read_lake(spark, lake, "history", until="1999-01-01").columns == pipeline.read_lake(spark, lake, "history").columns
