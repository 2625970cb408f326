"""Revenue by hour and city: a stream of orders becomes Parquet for analysts, and messages for other programs.

    python examples/orders/revenue.py sqlite:///shop.db out

The stream consumes the queue `orders` in batches. It writes the sum of an hour ten minutes after its end, by the times of the orders.
A batch is written to two destinations, to each under its number: after a crash the same batch comes again under the same number,
replaces its own files, and is not sent a second time.
"""

# ruff: noqa: T201  # an example talks to its reader

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rowq.spark

ORDER = "`order` bigint, city string, amount decimal(10,2), at timestamp"


def read_orders(spark: SparkSession, url: str) -> DataFrame:
    """The `streamId` stays the same, so the next run continues with the unfinished messages."""
    options = {"url": url, "queue": "orders", "streamId": "revenue"}
    messages = spark.readStream.format("rowq").options(**options).load()
    return messages.select(F.from_json("payload_text", ORDER).alias("it")).select("it.*")


def by_hour(orders: DataFrame) -> DataFrame:
    hours = orders.withWatermark("at", "10 minutes").groupBy(F.window("at", "1 hour"), "city")
    totals = hours.agg(F.count("*").alias("orders"), F.sum("amount").alias("revenue"))
    return totals.select(F.col("window.start").alias("hour"), "city", "orders", "revenue")


def main(url: str, folder: Path) -> None:
    spark = rowq.spark.session("local[2]", "revenue", **{"spark.sql.shuffle.partitions": 2})

    def write(hours: DataFrame, number: int) -> None:
        hours.persist()
        hours.write.mode("overwrite").parquet(str(folder / "revenue" / f"batch={number}"))
        results = hours.select(F.to_json(F.struct("*")).alias("payload"))
        # A new checkpoint numbers its batches from 0 again. The id of the query, which the checkpoint stores, tells them apart.
        query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        transaction = {"txnAppId": f"revenue-{query}", "txnVersion": str(number)}
        results.write.format("rowq").mode("append").options(url=url, queue="results", **transaction).save()
        hours.unpersist()

    stream = by_hour(read_orders(spark, url)).writeStream.foreachBatch(write).outputMode("append")
    stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    told = spark.read.parquet(str(folder / "revenue")).orderBy("hour", "city").withColumn("hour", F.date_format("hour", "HH:mm"))
    for row in told.collect():
        print(f"{row.hour} {row.city:<8} {row.orders:>3} orders {row.revenue:>9}")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
