"""Lines of history and audit in Spark: a range of line numbers, read by a suitable number of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowq.spark.tables import SCHEMAS
from rowq.store.stream.segment import Kind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

PER_TASK = 100_000
MOST_TASKS = 200

LINE = "line"
"""The column with the number of a line."""
MOMENT: dict[Kind, str] = {"history": "finished_at", "audit": "at"}
"""The column that determines the day of a line."""

_TYPES = {"int64": "bigint", "string": "string", "binary": "binary"}


def ddl(kind: Kind) -> str:
    """The columns of a kind as Spark DDL."""
    return ", ".join(f"`{field.name}` {_type_name(field.type)}" for field in SCHEMAS[kind])


def read_lines(
    spark: SparkSession, url: str, kind: Kind, first: int, last: int, count: int, columns: Sequence[str] | None = None
) -> DataFrame:
    """The lines from one number to another, both included; `count`: about how many there are."""
    chosen = list(columns or SCHEMAS[kind].names)
    if not count:
        return spark.createDataFrame([], ddl(kind)).select(chosen)
    tasks = max(1, min(MOST_TASKS, -(-count // PER_TASK)))
    reader = spark.read.format("rowq").options(url=url, table=kind, columns=",".join(chosen), minPartitions=tasks)
    return reader.options(startingPosition=first, endingPosition=last).load()


def day(kind: Kind) -> Column:
    """The day of a line in UTC, whatever the timezone of the session."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.date_from_unix_date(F.floor(F.unix_millis(F.col(MOMENT[kind])) / 86_400_000).cast("int"))


def _type_name(kind: pa.DataType) -> str:
    return "timestamp" if str(kind).startswith("timestamp") else _TYPES[str(kind)]
