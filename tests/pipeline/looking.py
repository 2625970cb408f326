"""Which lines are in a lake, and which are still in the database."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from rowq.spark import pipeline
from rowq.spark.tables import Piece, open_tabular
from rowq.store.stream.segment import Kind


def lines(spark: SparkSession, lake: Path, kind: Kind) -> list[int]:
    return sorted(row.line for row in pipeline.read_lake(spark, lake, kind).select("line").collect())


def hot(url: str, kind: Kind) -> list[int]:
    with open_tabular(url) as tabular:
        read = tabular.read(Piece(kind, 1, 1 << 40), queues=None, columns=["line"])
        return sorted(line for batch in read for line in batch.column(0).to_pylist())
