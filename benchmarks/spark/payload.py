"""What is sent through Spark: JSON of 200 bytes, made by Spark itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUE = "bench"
SIZE = 200
_PATTERN = '{{"to":"ada@example.com","order":%d,"text":"{padding}"}}'
_FIRST = 10**9
"""Numbers of ten digits: all payloads have the same size."""
_PADDING = "x" * (SIZE - len(_PATTERN.format(padding="") % _FIRST))


def messages(spark: SparkSession, count: int) -> DataFrame:
    """So many rows of `queue` and `payload`, in two parts."""
    from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

    body = F.format_string(_PATTERN.format(padding=_PADDING), F.col("id") + _FIRST)
    return spark.range(count, numPartitions=2).select(F.lit(QUEUE).alias("queue"), body.alias("payload"))


def send(frame: DataFrame, url: str) -> None:
    """Into their queue, exactly once."""
    frame.write.format("rowq").options(url=url, queueColumn="queue").mode("append").save()
