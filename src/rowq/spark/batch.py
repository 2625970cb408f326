"""A table as a DataFrame: planned once on the driver, read in ranges by the executors, each over its own connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rowq.spark.request import Read
from rowq.spark.tables import Piece, open_tabular

if TYPE_CHECKING:
    import pyarrow as pa


class Rows(InputPartition):
    """Rows of a table for one task."""

    def __init__(self, piece: Piece, queues: tuple[str, ...] | None) -> None:
        super().__init__((piece.first, piece.last))
        self.piece = piece
        self.queues = queues


class TableReader(DataSourceReader):
    def __init__(self, asked: Read, columns: list[str]) -> None:
        self._asked = asked
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """A DataFrame keeps the bounds of its first action: to see later rows, create a new one."""
        asked = self._asked
        queues = asked.queues.resolve(asked.at)
        with open_tabular(asked.at.url()) as tabular:
            bounds = tabular.bounds(asked.table, queues=queues, since_ms=asked.since_ms, until_ms=asked.until_ms)
            if bounds is None:
                return []
            first, last = max(bounds[0], asked.first or 0), bounds[1] if asked.last is None else min(bounds[1], asked.last)
            if first > last:
                return []
            return [
                Rows(piece, queues) for piece in tabular.pieces(asked.table, (first, last), asked.parts.least, asked.parts.most_records)
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Rows):  # Spark creates one of its own for a table without rows
            return
        with open_tabular(self._asked.at.url()) as tabular:
            yield from tabular.read(
                partition.piece, queues=partition.queues, states=self._asked.states, columns=self._columns, where=self._where()
            )

    def _where(self) -> dict[str, Any]:
        times = {"since": self._asked.since_ms, "until": self._asked.until_ms}
        return {**dict(self._asked.where), **{name: ms for name, ms in times.items() if ms is not None}}
