"""A queue drained by a stream: many messages a batch, beside few. What Spark does for a batch takes as long for either."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import rowq
from benchmarks.harness import Bar, Bench, Claim, Gauge, Scores, Timing, Turns, interleave
from benchmarks.postgresql.status_column import settle
from benchmarks.scale import Scale
from benchmarks.servers import Host
from benchmarks.spark.payload import QUEUE, messages, send

DRAIN = Gauge("drain", "/s")


def measure(bench: Bench, host: Host, spark: SparkSession) -> Scores:
    scale = bench.scale
    return interleave(
        bench,
        {
            _name(scale.many_a_batch): lambda room: _drained(host, spark, room, scale.many_a_batch, scale.drained_batches),
            _name(scale.few_a_batch): lambda room: _drained(host, spark, room, scale.few_a_batch, scale.drained_batches),
        },
    )


def claims(scores: Scores, scale: Scale) -> list[Claim]:
    many, few = _name(scale.many_a_batch), _name(scale.few_a_batch)
    return [
        Claim(
            f"draining, {scale.many_a_batch:,} a batch to {scale.few_a_batch:,}", "x", scores.ratio(DRAIN, many, few), Bar("at least", 15)
        )
    ]


def _name(size: int) -> str:
    return f"rowq, a stream with {size:,} a batch"


def _drained(host: Host, spark: SparkSession, room: Path, size: int, batches: int) -> Turns:
    with host.database() as url:
        with rowq.connect(url) as broker:
            broker.configure(QUEUE, audit=False)
        send(messages(spark, size * (1 + batches)), url)
        settle(url)
        stream = spark.readStream.format("rowq").options(url=url, queue=QUEUE, streamId="drain", maxMessagesPerTrigger=size).load()
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(room))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        # Each trigger settles the batch before it, so one for another they are all there.
        done = [(progress["durationMs"]["triggerExecution"], progress["numInputRows"]) for progress in query.recentProgress]
        counted = [(took, count) for took, count in done if count][1:]
        assert [count for _, count in counted] == [size] * batches, "a batch was not full"
        yield {DRAIN: Timing(sum(took for took, _ in counted) / 1000, size * batches)}
