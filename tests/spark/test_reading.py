"""Tables as DataFrames: every table, in parts, with fewer columns, by predicates."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType

import rowq


def load(spark: SparkSession, url: str, **options: Any) -> DataFrame:
    return spark.read.format("rowq").options(url=url, **options).load()


@pytest.fixture
def stocked(broker: rowq.Broker) -> rowq.Broker:
    """Messages in every state, in two queues; some are finished, some dead."""
    broker.configure("orders", keep="body")
    broker.send_many("orders", [{"n": n} for n in range(20)], headers={"from": "shop"})
    broker.send("orders", {"later": "ä"}, delay=3600)
    broker.send("other", b"\xff\x00", priority=7, key="k")
    broker.ack_many(broker.receive("orders", max=5))
    for delivery in broker.receive("orders", max=3):
        broker.reject(delivery, reason="broken")
    broker.receive("orders", max=2, lease=600, consumer="ada")
    return broker


def test_all_messages_are_read_with_their_states(spark: SparkSession, stocked: rowq.Broker, url: str) -> None:
    counts = {row["state"]: row["count"] for row in load(spark, url, queue="orders").groupBy("state").count().collect()}
    assert counts == {"ready": 10, "scheduled": 1, "leased": 2, "dead": 3, "finished": 5}


def test_a_message_reads_as_it_was_sent(spark: SparkSession, stocked: rowq.Broker, url: str) -> None:
    (row,) = load(spark, url, queue="other").collect()
    (message,) = stocked.browse("other")
    assert (row["id"], row["queue"], row["priority"], row["key"]) == (message.id, "other", 7, "k")
    assert (bytes(row["payload"]), row["payload_text"]) == (b"\xff\x00", None)
    assert round(row["sent_at"].timestamp() * 1000) == message.sent_at
    (row,) = load(spark, url, queue="orders", states="scheduled").collect()
    assert row["payload_text"] == '{"later":"ä"}'


def test_dead_letters_history_and_audit_are_tables_of_their_own(spark: SparkSession, stocked: rowq.Broker, url: str) -> None:
    dead = load(spark, url, table="dead", queue="orders").collect()
    assert {(row["reason"], row["error"]) for row in dead} == {("rejected", "broken")}
    history = load(spark, url, table="history", queue="orders").collect()
    assert sorted(row["payload_text"] for row in history) == [f'{{"n":{n}}}' for n in range(5)]
    events = {row["event"]: row["count"] for row in load(spark, url, table="audit", queue="orders").groupBy("event").count().collect()}
    assert (events["enqueued"], events["delivered"], events["acked"]) == (21, 10, 5)


def test_without_a_queue_all_are_read(spark: SparkSession, stocked: rowq.Broker, url: str) -> None:
    assert load(spark, url).count() == 22
    assert load(spark, url, queuePattern="o.*r").count() == 1


def test_rows_come_in_as_many_parts_as_are_asked_for_and_each_once(spark: SparkSession, stocked: rowq.Broker, url: str) -> None:
    frame = load(spark, url, queue="orders", minPartitions=4)
    assert frame.rdd.getNumPartitions() == 4
    assert frame.select("id").distinct().count() == frame.count() == 21
    assert load(spark, url, queue="orders", minPartitions=1, maxRecordsPerPartition=3).rdd.getNumPartitions() >= 7


def test_an_empty_database_is_an_empty_frame(spark: SparkSession, broker: rowq.Broker, url: str) -> None:
    for table in ("messages", "dead", "history", "audit"):
        assert load(spark, url, table=table).count() == 0


def test_fewer_columns_are_read_by_option_or_by_schema(spark: SparkSession, stocked: rowq.Broker, url: str) -> None:
    assert load(spark, url, columns="state,id").columns == ["state", "id"]
    assert load(spark, url, columns="state,id").count() == 22
    assert "headers" not in load(spark, url, includeHeaders=False).columns
    chosen = spark.read.format("rowq").schema("seq bigint, queue string").options(url=url).load()
    assert chosen.columns == ["seq", "queue"]
    assert {row["queue"] for row in chosen.collect()} == {"orders", "other"}


def test_predicates_choose_rows(spark: SparkSession, stocked: rowq.Broker, url: str) -> None:
    assert load(spark, url, states="dead,leased", queue="orders").count() == 5
    assert load(spark, url, where="min_priority=7").count() == 1
    assert load(spark, url, table="dead", where="reason=rejected;max_priority=0").count() == 3
    assert load(spark, url, table="dead", where="reason=expired").count() == 0
    assert load(spark, url, table="audit", where="event=acked").count() == 5
    assert load(spark, url, endingTimestamp="2020-01-01").count() == 0
    assert load(spark, url, startingTimestamp="2020-01-01").count() == 22


def test_positions_cut_a_log(spark: SparkSession, stocked: rowq.Broker, url: str) -> None:
    lines = sorted(row["line"] for row in load(spark, url, table="audit").collect())
    cut = load(spark, url, table="audit", startingPosition=lines[3], endingPosition=lines[5])
    assert sorted(row["line"] for row in cut.collect()) == lines[3:6]


def test_filters_of_one_frame_do_not_leak_into_another(spark: SparkSession, stocked: rowq.Broker, url: str) -> None:
    frame = load(spark, url)
    assert frame.filter("queue = 'other'").count() == 1
    assert frame.count() == 22


ALIKE = pytest.mark.prove("a second for each; the others stand for it here, and test_options.py has the words of all")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quue": "a"}, "did you mean queue"),
        ({"queuePattern": "none.*"}, "no queue name matches"),
        pytest.param({"columns": "payloda"}, "there is no column payloda", marks=ALIKE),
        pytest.param({"streamId": "a"}, "has no meaning for a batch read", marks=ALIKE),
        pytest.param({"where": "reason=x"}, "messages cannot be filtered by 'reason'", marks=ALIKE),
    ],
)
def test_refusals_reach_the_user_with_their_words(
    spark: SparkSession, stocked: rowq.Broker, url: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(PySparkException, match=words):
        load(spark, url, **options).collect()


def test_a_schema_of_another_type_is_refused(spark: SparkSession, stocked: rowq.Broker, url: str) -> None:
    with pytest.raises(PySparkException, match="column id is read as string"):
        spark.read.format("rowq").schema(f"id {LongType().simpleString()}").options(url=url).load().collect()


def test_an_unreachable_database_is_told(spark: SparkSession, tmp_path: Any) -> None:
    with pytest.raises(PySparkException, match="StoreUnavailable"):
        load(spark, f"sqlite:///{tmp_path / 'nowhere.db'}").collect()
