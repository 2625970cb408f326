"""Streams as Spark runs them. Nothing registers the source here: Spark finds it by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import rowq
import rowq.spark
from tests.support.database import new_database
from tests.support.patience import eventually

WITHIN = 240


def stream(spark: SparkSession, url: str, **options: Any) -> DataFrame:
    given = {"url": url, "queue": "orders", "streamId": "billing", "pollInterval": "20ms", **options}
    return spark.readStream.format("rowq").options(**given).load()


def make_queues(broker: rowq.Broker) -> None:
    """For a query that is looked at before anything was sent."""
    for queue in ("orders", "done"):
        broker.configure(queue)


def into_queue(frame: DataFrame, url: str, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    """Every message goes on to the queue `done`."""
    options = {"url": url, "queue": "done", "formatColumn": "format", "checkpointLocation": str(checkpoint)}
    return frame.writeStream.format("rowq").options(**options).trigger(**trigger).start()


def finish(query: StreamingQuery) -> StreamingQuery:
    assert query.awaitTermination(WITHIN), "the query did not end"
    return query


def moved(query: StreamingQuery, broker: rowq.Broker) -> list[Any]:
    """What is in `done`; a query that has failed says why, instead of keeping us waiting."""
    if (failure := query.exception()) is not None:
        raise failure
    return numbers(broker, "done")


def numbers(broker: rowq.Broker, queue: str) -> list[Any]:
    return sorted(message.payload for message in broker.walk(queue))


def test_a_run_with_available_now_drains_and_settles_everything(spark: SparkSession, broker: rowq.Broker, url: str, tmp_path: Path) -> None:
    broker.send_many("orders", list(range(250)))
    query = finish(into_queue(stream(spark, url, maxMessagesPerTrigger=100), url, tmp_path / "checkpoint", availableNow=True))
    assert [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]] == [100, 100, 50]
    assert numbers(broker, "done") == list(range(250))
    stats = broker.stats("orders")
    assert (stats.ready, stats.leased) == (0, 0)


def test_a_queue_in_mariadb_is_drained_by_several_batches_and_written_to(spark: SparkSession, tmp_path: Path) -> None:
    url = new_database("mariadb", tmp_path).url
    with rowq.connect(url) as broker:
        broker.send_many("orders", list(range(25)))
        for prefetch in (0, 1):
            frame = stream(spark, url, maxMessagesPerTrigger=15, prefetchBatches=prefetch)
            finish(into_queue(frame, url, tmp_path / "checkpoint", availableNow=True))
            broker.send_many("orders", [100 + n for n in range(25)] if prefetch == 0 else [])
        assert numbers(broker, "done") == [*range(25), *range(100, 125)]
        stats = broker.stats("orders")
        assert (stats.ready, stats.leased) == (0, 0)


def test_a_run_goes_on_where_the_last_one_ended(spark: SparkSession, broker: rowq.Broker, url: str, tmp_path: Path) -> None:
    for round in range(2):
        broker.send_many("orders", [round * 10 + n for n in range(10)])
        finish(into_queue(stream(spark, url), url, tmp_path / "checkpoint", availableNow=True))
    assert numbers(broker, "done") == list(range(20))


def test_a_running_stream_settles_its_last_batch_though_nothing_follows(
    spark: SparkSession, broker: rowq.Broker, url: str, tmp_path: Path
) -> None:
    make_queues(broker)
    query = into_queue(stream(spark, url), url, tmp_path / "checkpoint", processingTime="0 seconds")
    try:
        broker.send_many("orders", [1, 2, 3])
        eventually(lambda: moved(query, broker) == [1, 2, 3], within=WITHIN)
        eventually(lambda: broker.stats("orders").leased == 0, within=WITHIN)
        (source,) = query.recentProgress[0]["sources"]
        assert "ready" in str(source["latestOffset"])
    finally:
        query.stop()


@pytest.mark.prove("two queries, 13 s; tests/ledger/test_rivals.py has holders that take a stream from each other")
def test_a_second_query_of_the_same_stream_stops_the_first_and_not_the_data(
    spark: SparkSession, broker: rowq.Broker, url: str, tmp_path: Path
) -> None:
    make_queues(broker)
    first = into_queue(stream(spark, url), url, tmp_path / "first", processingTime="0 seconds")
    broker.send_many("orders", list(range(10)))
    eventually(lambda: len(moved(first, broker)) == 10, within=WITHIN)
    eventually(lambda: broker.stats("orders").leased == 0, within=WITHIN)
    second = into_queue(stream(spark, url), url, tmp_path / "second", processingTime="0 seconds")
    try:
        with pytest.raises(StreamingQueryException, match="StreamTaken"):
            first.awaitTermination(WITHIN)
        broker.send_many("orders", list(range(10, 20)))
        eventually(lambda: moved(second, broker) == list(range(20)), within=WITHIN)
    finally:
        second.stop()


@pytest.mark.prove("10 s; tests/spark/test_lease.py refuses such a checkpoint without a query")
def test_a_checkpoint_of_another_stream_stops_the_query(spark: SparkSession, broker: rowq.Broker, url: str, tmp_path: Path) -> None:
    broker.send("orders", 1)
    finish(into_queue(stream(spark, url), url, tmp_path / "checkpoint", availableNow=True))
    broker.send("orders", 2)
    with pytest.raises(StreamingQueryException, match="CheckpointMismatch: the checkpoint belongs to 'billing', and streamId is 'other'"):
        finish(into_queue(stream(spark, url, streamId="other"), url, tmp_path / "checkpoint", availableNow=True))
    assert numbers(broker, "orders") == [2]


@pytest.mark.prove("5 s; tests/spark/test_lease.py has the columns without a query")
def test_a_stream_shows_where_each_message_stands(spark: SparkSession, broker: rowq.Broker, url: str, tmp_path: Path) -> None:
    broker.send_many("orders", list(range(10)))
    frame = stream(spark, url, includeLease=True, columns="payload_text,_stream,_batch,_place")
    writer = frame.writeStream.format("parquet").options(checkpointLocation=str(tmp_path / "checkpoint"), path=str(tmp_path / "out"))
    finish(writer.trigger(availableNow=True).start())
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("_place").collect()
    assert [(row["_stream"], row["_batch"], row["_place"], row["payload_text"]) for row in rows] == [
        ("billing", 1, n + 1, str(n)) for n in range(10)
    ]


def test_a_log_is_followed_over_restarts_line_by_line(spark: SparkSession, broker: rowq.Broker, url: str, tmp_path: Path) -> None:
    for round in range(2):
        broker.send_many("orders", list(range(20)))
        frame = spark.readStream.format("rowq").options(url=url, mode="log", table="audit", maxMessagesPerTrigger=15).load()
        writer = frame.writeStream.format("parquet").options(checkpointLocation=str(tmp_path / "checkpoint"), path=str(tmp_path / "out"))
        finish(writer.trigger(availableNow=True).start())
        lines = [row["line"] for row in spark.read.parquet(str(tmp_path / "out")).collect()]
        assert len(lines) == len(set(lines)) == 20 * (round + 1)


@pytest.mark.prove("7 s; the other tests of this file, whose session knows the source, stand for it")
def test_a_session_may_be_told_of_the_source(spark: SparkSession, broker: rowq.Broker, url: str) -> None:
    broker.send("orders", 1)
    rowq.spark.register(spark)
    assert spark.read.format("rowq").options(url=url).load().count() == 1
