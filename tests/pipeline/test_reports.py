"""The reports say what happened, whether they read the database, the lake, or both."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import rowq
from rowq import InvalidArgument, LakeMismatch, ManualClock
from rowq.model.fingerprint import fingerprint
from rowq.spark import pipeline
from rowq.spark.pipeline import Source, measure
from rowq.spark.pipeline.overview import overview
from rowq.spark.pipeline.page import render
from rowq.spark.pipeline.report import Reports
from tests.model.test_fingerprint import ALIKE
from tests.pipeline.past import work_off
from tests.pipeline.test_page import Outline
from tests.support.database import new_database

NOON = round(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
HOUR = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def broker(url: str, clock: ManualClock) -> Iterator[rowq.Broker]:
    with rowq.connect(url, maintenance=False, clock=clock) as broker:
        yield broker


@pytest.fixture
def source(broker: rowq.Broker, clock: ManualClock, url: str) -> Source:
    """Two hours of two queues: orders are kept, and some fail; of mails there is nothing but the audit."""
    broker.configure("orders", keep="body", max_attempts=2, backoff=[1])
    broker.send_many("orders", list(range(10)))
    broker.send_many("mails", list(range(4)))
    clock.advance(2)
    for delivery in broker.receive("orders", max=10, consumer="ada"):
        clock.advance(0.1)
        if delivery.payload < 6:
            broker.ack(delivery)
        elif delivery.payload == 9:
            broker.reject(delivery, reason="no customer 4711")
        else:
            broker.nack(delivery, reason=f"timeout after {delivery.payload} s")
    clock.advance(3600)
    for delivery in broker.receive("orders", max=10, consumer="grace"):
        broker.nack(delivery, reason=f"timeout after {delivery.payload}0 s")
    for delivery in broker.receive("mails", max=3, consumer="grace"):
        clock.advance(1)
        broker.ack(delivery)
    return Source(url=url)


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def hours(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """With the hour as a number: 0 is noon."""
    from pyspark.sql import functions as F  # noqa: N812

    return rows(frame.withColumn("hour", ((F.unix_millis("hour") - NOON) / HOUR).cast("int")), "queue", "hour", *columns)


def test_throughput_is_counted_by_queue_and_hour(spark: SparkSession, source: Source) -> None:
    found = pipeline.reports(spark, source).throughput
    assert hours(found, "sent", "delivered", "acked", "nacked", "rejected", "dead") == [
        ("mails", 0, 4, 0, 0, 0, 0, 0),
        ("mails", 1, 0, 3, 3, 0, 0, 0),
        ("orders", 0, 10, 10, 6, 3, 1, 1),
        ("orders", 1, 0, 3, 0, 3, 0, 3),
    ]


def test_waiting_and_processing_are_told_in_quantiles(spark: SparkSession, source: Source) -> None:
    found = pipeline.reports(spark, source).latency
    assert hours(found, "messages", "wait_p50", "wait_max", "processing_p50", "processing_p99", "processing_max") == [
        ("mails", 1, 3, 3_603_000, 3_603_000, 2_000, 3_000, 3_000),
        ("orders", 0, 6, 2_000, 2_000, 300, 600, 600),
    ]


@pytest.mark.prove("6 s; the quantiles of hours stand for it")
def test_sketches_of_hours_are_merged_to_those_of_a_day(spark: SparkSession, source: Source) -> None:
    found = measure.merged(pipeline.reports(spark, source).latency)
    assert rows(found, "messages", "processing_max") == [(9, 3_000)]
    assert 300 <= found.collect()[0].processing_p50 <= 600


def test_retries_and_dead_letters_are_counted(spark: SparkSession, source: Source) -> None:
    found = pipeline.reports(spark, source)
    assert hours(found.retries, "deliveries", "retries", "nacked") == [
        ("mails", 1, 3, 0, 0),
        ("orders", 0, 10, 0, 3),
        ("orders", 1, 3, 3, 3),
    ]
    assert hours(found.dead_letters, "reason", "died", "ended") == [
        ("orders", 0, "rejected", 1, 7),
        ("orders", 1, "max_attempts_reached", 3, 3),
    ]


def test_failures_that_mean_the_same_are_one(spark: SparkSession, source: Source) -> None:
    found = pipeline.reports(spark, source).failures
    assert rows(found, "queue", "fingerprint", "failures", "messages") == [
        ("orders", "no customer <number>", 1, 1),
        ("orders", "timeout after <number> s", 6, 3),
    ]


def test_consumers_are_told_apart(spark: SparkSession, source: Source) -> None:
    found = pipeline.reports(spark, source).consumers
    assert rows(found, "queue", "consumer", "delivered", "acked", "nacked", "rejected") == [
        ("mails", "grace", 3, 3, 0, 0),
        ("orders", "ada", 10, 6, 3, 1),
        ("orders", "grace", 3, 0, 3, 0),
    ]


def test_depth_is_what_came_and_has_not_left(spark: SparkSession, source: Source, broker: rowq.Broker) -> None:
    assert hours(pipeline.reports(spark, source).depth, "depth") == [("mails", 0, 4), ("mails", 1, 1), ("orders", 0, 3), ("orders", 1, 0)]
    assert broker.redrive("orders") == 4
    assert hours(pipeline.reports(spark, source).depth, "depth")[-1] == ("orders", 1, 4)


def test_messages_that_came_before_the_first_line_were_there_from_the_beginning(spark: SparkSession, source: Source, url: str) -> None:
    later = Source(url=url, since_ms=NOON + HOUR)
    assert hours(pipeline.reports(spark, later).depth, "depth") == [("mails", 1, 0), ("orders", 1, 0)]


def test_queues_and_times_can_be_chosen(spark: SparkSession, source: Source, url: str) -> None:
    chosen = Source(url=url, queues=("mails",), until_ms=NOON + HOUR)
    assert hours(pipeline.reports(spark, chosen).throughput, "sent") == [("mails", 0, 4)]


def test_spark_makes_the_fingerprints_that_python_makes(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    errors = [error for pair in ALIKE for error in pair[:2]]
    frame = spark.createDataFrame([(error,) for error in errors], "error string")
    made = {row.error: row.made for row in frame.withColumn("made", measure.fingerprinted(F.col("error"))).collect()}
    assert made == {error: fingerprint(error) for error in errors}


def told(found: Reports) -> dict[str, list[str]]:
    """Everything but the sketches, which may be made in any order."""
    kept = {name: [column for column, kind in frame.dtypes if kind != "binary"] for name, frame in found._asdict().items()}
    return {name: [str(row) for row in rows(frame, *kept[name])] for name, frame in found._asdict().items()}


@pytest.mark.prove("four reports, 30 s; each report by itself stands for it")
def test_lake_and_database_together_tell_what_the_database_told(
    spark: SparkSession, source: Source, url: str, broker: rowq.Broker, lake: Path, tmp_path: Path
) -> None:
    pipeline.archive(spark, url, lake, purge_after_ms=0)
    work_off(broker, 5, "later")
    both = pipeline.reports(spark, Source(lake=lake, url=url))
    hot = pipeline.reports(spark, Source(url=url))
    cold = pipeline.reports(spark, Source(lake=lake))
    assert {row.queue for row in hot.throughput.collect()} == {"later"}
    assert {row.queue for row in cold.throughput.collect()} == {"orders", "mails"}
    assert {row.queue: row.sent for row in both.throughput.where("sent > 0").collect()} == {"orders": 10, "mails": 4, "later": 5}
    pipeline.write_reports(both, tmp_path / "figures")
    written = Reports(*(spark.read.parquet(str(tmp_path / "figures" / name)) for name in Reports._fields))
    assert told(written) == told(both)


def test_a_page_shows_every_queue_and_kind_of_failure(spark: SparkSession, source: Source) -> None:
    text = render(overview(pipeline.reports(spark, source), title="Shop", now=NOON))
    outline = Outline(text)
    assert len(outline.named("section")) == len(outline.named("svg")) == 8
    for word in ("Shop", "orders", "mails", "timeout after &lt;number&gt; s", "max_attempts_reached", "grace", "2026-01-31 12:00 UTC"):
        assert word in text


@pytest.mark.prove("5 s; tests/pipeline/test_page.py has the page without figures")
def test_a_database_without_a_past_has_a_page(spark: SparkSession, broker: rowq.Broker, url: str) -> None:
    text = render(overview(pipeline.reports(spark, Source(url=url)), title="Nothing", now=NOON))
    assert text.count("No data in this period.") == 8
    Outline(text)


def test_a_report_of_nothing_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgument, match="a lake, a database, or both"):
        pipeline.reports(spark, Source())


def test_a_lake_and_the_database_of_another_are_refused(spark: SparkSession, source: Source, url: str, lake: Path, tmp_path: Path) -> None:
    pipeline.archive(spark, url, lake)
    other = new_database("sqlite", tmp_path).elsewhere().url
    rowq.connect(other, maintenance=False).close()
    with pytest.raises(LakeMismatch):
        pipeline.reports(spark, Source(lake=lake, url=other))
