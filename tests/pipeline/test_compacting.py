"""Small files become one, and neither a reader nor a second compaction nor a crash sees more or fewer lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowq
from rowq import LakeBusy
from rowq.spark import pipeline
from rowq.spark.pipeline.archiving import KINDS
from rowq.spark.pipeline.lake import Lake
from tests.pipeline.looking import hot, lines
from tests.pipeline.past import let_die, work_off


class Killed(Exception):
    """Stands for whatever ends a process."""


def test_small_files_become_one_and_the_old_ones_go_with_a_vacuum(spark: SparkSession, url: str, broker: rowq.Broker, lake: Path) -> None:
    work_off(broker, 3)
    let_die(broker, ["no"])
    pipeline.archive(spark, url, lake, segment_lines=2, kinds=("history",))
    pipeline.archive(spark, url, lake, segment_lines=10)
    before = {kind: lines(spark, lake, kind) for kind in KINDS}
    reader = pipeline.read_lake(spark, lake, "history")  # a reader goes on while it is compacted
    days = {kind: len({file.date for file in Lake(lake).snapshot().files_of(kind)}) for kind in KINDS}
    done = pipeline.compact(spark, lake)
    assert done.before > done.after == sum(days.values())
    assert {kind: lines(spark, lake, kind) for kind in KINDS} == before
    assert reader.count() == 3
    assert pipeline.compact(spark, lake).before == 0
    removed = pipeline.vacuum(lake, older_than_ms=0)
    assert removed.files >= done.before
    assert len(list(lake.rglob("*.parquet"))) == done.after
    assert {kind: lines(spark, lake, kind) for kind in KINDS} == before
    work_off(broker, 2)
    pipeline.archive(spark, url, lake)
    assert lines(spark, lake, "history") == hot(url, "history")


def test_a_compaction_that_was_cut_off_changes_nothing(
    spark: SparkSession, url: str, broker: rowq.Broker, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_off(broker, 6)
    pipeline.archive(spark, url, lake, segment_lines=3, kinds=("history",))

    def killed(*given: Any, **options: Any) -> bool:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "publish", killed)
        with pytest.raises(Killed):
            pipeline.compact(spark, lake)
    assert lines(spark, lake, "history") == hot(url, "history")
    assert pipeline.compact(spark, lake).after == 1
    assert lines(spark, lake, "history") == hot(url, "history")


def test_two_compactions_at_the_same_time_replace_files_once(
    spark: SparkSession, url: str, broker: rowq.Broker, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_off(broker, 6)
    pipeline.archive(spark, url, lake, segment_lines=3, kinds=("history",))
    real = Lake.publish

    def overtaken(*given: Any, **options: Any) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(Lake, "publish", real)
            pipeline.compact(spark, lake)
        return real(*given, **options)

    monkeypatch.setattr(Lake, "publish", overtaken)
    with pytest.raises(LakeBusy):
        pipeline.compact(spark, lake)
    assert lines(spark, lake, "history") == hot(url, "history")
