"""Tables as Arrow, built from the rows of a snapshot, for databases without native Arrow support."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from rowq.store.arrow.schema import GIVEN, batches_of
from rowq.store.dialect import Dialect, Session, Snapshot


class _Rows:
    """A snapshot that reads the rows of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def batches(self, query: str, columns: list[str], values: dict[str, Any]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002  # all come
        return batches_of(self._session.stream(query, **values), GIVEN[query])


class RowReader:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    @contextmanager
    def reading(self) -> Iterator[Snapshot]:
        with self._dialect.reading() as session:
            yield _Rows(session)

    def close(self) -> None:
        """Nothing to do: the connections belong to the dialect."""
