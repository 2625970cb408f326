"""DataFrames into queues: each row a message, exactly once however often a write is repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import rowq
from tests.support.life import depths

WITHIN = 240


def save(frame: DataFrame, url: str, **options: Any) -> None:
    frame.write.format("rowq").options(url=url, **options).mode("append").save()


def payloads(broker: rowq.Broker, queue: str) -> list[Any]:
    return sorted(message.payload["n"] for message in broker.walk(queue))


@pytest.fixture
def numbers(spark: SparkSession) -> DataFrame:
    """{"n": 0} … {"n": 99} in four parts."""
    return spark.range(0, 100, 1, 4).selectExpr("id", "to_json(struct(id AS n)) AS payload")


def test_every_row_becomes_a_message(numbers: DataFrame, broker: rowq.Broker, url: str) -> None:
    save(numbers, url, queue="orders")
    assert payloads(broker, "orders") == list(range(100))
    deliveries = broker.receive("orders", max=100)
    assert len(deliveries) == 100
    assert {event.actor for event in broker.audit(deliveries[0].id) if event.event == "enqueued"} == {"spark"}


def test_a_waiting_consumer_gets_what_was_written(numbers: DataFrame, broker: rowq.Broker, url: str) -> None:
    save(numbers, url, queue="orders")
    assert broker.receive("orders", wait=20)


def test_columns_say_what_options_of_a_send_would(spark: SparkSession, broker: rowq.Broker, url: str) -> None:
    frame = spark.sql(
        """
        SELECT 'mails' AS to, 'hello' AS body, map('lang', 'de') AS headers, 'k1' AS key, 'g' AS grp, 5 AS priority, 0 AS delay,
            3600 AS ttl, 'my-id' AS id
        UNION ALL
        SELECT 'later', 'wait', NULL, NULL, NULL, NULL, 60, NULL, NULL
        """
    )
    roles = {"queueColumn": "to", "payloadColumn": "body", "groupColumn": "grp", "payloadAs": "text"}
    save(frame, url, **roles, **{f"{name}Column": name for name in ("headers", "key", "priority", "delay", "ttl", "id")})
    message = broker.get("my-id")
    assert (message.queue, message.payload, message.headers) == ("mails", "hello", {"lang": "de"})
    assert (message.key, message.group, message.priority) == ("k1", "g", 5)
    (later,) = broker.browse("later", state="scheduled")
    assert later.payload == "wait"


@pytest.mark.parametrize("mode", ["exactly_once", "direct"])
def test_a_timestamp_says_when_a_message_is_due(spark: SparkSession, broker: rowq.Broker, url: str, mode: str) -> None:
    """Not when the batch was put down: a moment does not move while it waits to be published."""
    frame = spark.sql("SELECT '1' AS payload, timestamp_millis(unix_millis(current_timestamp()) + 86400000) AS due")
    (row,) = frame.collect()
    save(spark.createDataFrame([row]), url, queue="q", atColumn="due", deliveryMode=mode)
    (message,) = broker.browse("q", state="scheduled")
    assert message.due_at == round(row.due.timestamp() * 1000)


def test_values_of_other_types_are_sent_as_json(spark: SparkSession, broker: rowq.Broker, url: str) -> None:
    save(spark.sql("SELECT struct(1 AS a, array('x') AS b) AS payload"), url, queue="q")
    (message,) = broker.browse("q")
    assert message.payload == {"a": 1, "b": ["x"]}


def test_the_same_version_of_a_transaction_is_written_once(numbers: DataFrame, broker: rowq.Broker, url: str) -> None:
    for version in (1, 1, 2):
        save(numbers, url, queue="orders", txnAppId="nightly", txnVersion=version)
    assert payloads(broker, "orders") == sorted([*range(100)] * 2)


def test_a_write_without_a_transaction_is_one_of_its_own(numbers: DataFrame, broker: rowq.Broker, url: str) -> None:
    save(numbers, url, queue="orders")
    save(numbers, url, queue="orders")
    assert len(payloads(broker, "orders")) == 200


def test_a_direct_write_sends_at_once(numbers: DataFrame, broker: rowq.Broker, url: str) -> None:
    save(numbers, url, queue="orders", deliveryMode="direct")
    assert payloads(broker, "orders") == list(range(100))


def test_one_bad_row_and_nothing_is_written(spark: SparkSession, broker: rowq.Broker, url: str) -> None:
    frame = spark.range(0, 10, 1, 2).selectExpr("CASE WHEN id = 7 THEN 'no JSON' ELSE '{}' END AS payload")
    with pytest.raises(PySparkException, match=r"InvalidArgument: row 2: "):
        save(frame, url, queue="orders")
    assert depths(broker, "orders") == {}


def test_what_cannot_be_meant_is_refused(numbers: DataFrame, broker: rowq.Broker, url: str) -> None:
    with pytest.raises(PySparkException, match=r"use mode\('append'\)"):
        numbers.write.format("rowq").options(url=url, queue="q").mode("overwrite").save()
    with pytest.raises(PySparkException, match="there is no column body"):
        save(numbers, url, queue="q", payloadColumn="body")
    with pytest.raises(PySparkException, match="NameReserved"):
        save(numbers, url, queue="q.dlq")


def test_a_stream_writes_each_batch_once_over_restarts(spark: SparkSession, broker: rowq.Broker, url: str, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    for round in range(2):
        spark.range(round * 10, round * 10 + 10).write.mode("append").json(str(source))
        frame = spark.readStream.schema("id bigint").json(str(source)).selectExpr("to_json(struct(id AS n)) AS payload")
        writer = frame.writeStream.format("rowq").options(url=url, queue="orders", checkpointLocation=str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination(WITHIN)
    assert payloads(broker, "orders") == list(range(20))


def test_a_batch_that_is_played_again_is_published_once(spark: SparkSession, broker: rowq.Broker, url: str, tmp_path: Path) -> None:
    """As after a crash between the sink's transaction and Spark's own commit log."""
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    spark.range(10).write.json(str(source))

    def run() -> None:
        frame = spark.readStream.schema("id bigint").json(str(source)).selectExpr("to_json(struct(id AS n)) AS payload")
        writer = frame.writeStream.format("rowq").options(url=url, queue="orders", checkpointLocation=str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination(WITHIN)

    run()
    for log in (checkpoint / "commits").iterdir():
        log.unlink()
    run()
    assert payloads(broker, "orders") == list(range(10))
