"""A program for a cluster: what is in `orders` is read, streamed to `done` and written to `copies`; says as JSON what it saw.

Run as `python -m tests.spark.clustered MASTER URL CHECKPOINT`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import rowq.spark


def executors(spark: SparkSession) -> int:
    """How many of them take part: they are separate processes, each with a folder of its own."""
    folders = spark.sparkContext.parallelize(range(8), 8).map(lambda _: str(Path.cwd())).distinct().collect()
    return len(folders)


def main(master: str, url: str, checkpoint: str) -> None:
    everybody = {"spark.scheduler.minRegisteredResourcesRatio": 1.0, "spark.scheduler.maxRegisteredResourcesWaitingTime": "240s"}
    spark = rowq.spark.session(master, "clustered", **everybody, **{"spark.executor.memory": "512m", "spark.log.level": "ERROR"})
    orders = spark.read.format("rowq").options(url=url, queue="orders", minPartitions=4).load()
    seen = {"executors": executors(spark), "read": orders.count()}
    orders.select("payload", "format").write.format("rowq").options(
        url=url, queue="copies", formatColumn="format", txnAppId="cluster", txnVersion=1
    ).mode("append").save()
    stream = spark.readStream.format("rowq").options(url=url, queue="orders", streamId="cluster", minPartitions=4).load()
    sink = {"url": url, "queue": "done", "formatColumn": "format", "checkpointLocation": checkpoint}
    stream.writeStream.format("rowq").options(**sink).trigger(availableNow=True).start().awaitTermination()
    spark.stop()
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
