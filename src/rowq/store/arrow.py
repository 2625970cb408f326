"""What it takes to read tables as Arrow. A dialect may have a way of its own; tabular.py has one for all others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class Snapshot(Protocol):
    def batches(self, query: str, columns: list[str], values: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """All rows of one of the queries of tabular.sql, with these columns at least, of whatever type the database has for them."""


class Reader(Protocol):
    def reading(self) -> AbstractContextManager[Snapshot]:
        """A consistent view for any number of queries, one after another."""

    def close(self) -> None: ...


class ArrowDriver(Reader, Protocol):
    """A database's own way, on a connection of its own."""

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Adds rows to a table, at once and for good; the columns have the names of the table's."""
