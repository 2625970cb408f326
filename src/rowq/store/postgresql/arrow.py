"""Arrow from PostgreSQL: a query's result is copied out in the binary format and converted to columns without building rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from adbc_driver_manager import AdbcStatusCode
from psycopg.conninfo import make_conninfo
from psycopg.sql import Literal

from rowq.errors import StoreError, StoreUnavailable
from rowq.store.postgresql.session import PostgresqlQueries
from rowq.store.query import LIST_PARAMETER, PARAMETER
from rowq.store.stream.arrow import GIVEN

_BATCH_BYTES = "adbc.postgresql.batch_size_hint_bytes"
_SIZE = str(8 << 20)


class PostgresqlArrow:
    """Has a connection of its own, because it uses another driver."""

    def __init__(self, parameters: dict[str, Any], where: str, queries: PostgresqlQueries) -> None:
        self._parameters = parameters
        self._where = where
        self._queries = queries
        self._connection: Any = None

    @contextmanager
    def reading(self) -> Iterator[_Snapshot]:
        with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "ROLLBACK") as connection:
            _say(connection, self._queries["plan_for_reading"])
            yield _Snapshot(connection, self._queries)

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        with self._transaction("BEGIN", "COMMIT") as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(table, batch, mode="append", db_schema_name=self._queries.schema)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(adbc.Error):
                connection.close()

    @contextmanager
    def _transaction(self, first: str, last: str) -> Iterator[Any]:
        try:
            connection = self._begun(first)
            yield connection
            _say(connection, last)
        except BaseException as error:
            self.close()
            if isinstance(error, adbc.Error):
                raise self._failure(error) from error
            raise

    def _begun(self, word: str) -> Any:
        """A connection that broke while idle is opened again."""
        if self._connection is not None:
            try:
                _say(self._connection, word)
                return self._connection
            except adbc.Error:
                self.close()
        self._connection = adbc.connect(make_conninfo(**self._parameters), autocommit=True)
        _say(self._connection, word)
        return self._connection

    def _failure(self, error: adbc.Error) -> StoreError:
        is_away = isinstance(error, adbc.OperationalError)
        return (StoreUnavailable if is_away else StoreError)(f"the Arrow driver failed at {self._where}: {' '.join(str(error).split())}")


class _Snapshot:
    def __init__(self, connection: Any, queries: PostgresqlQueries) -> None:
        self._connection = connection
        self._queries = queries

    def batches(self, query: str, columns: list[str], values: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        with self._connection.cursor(adbc_stmt_kwargs={_BATCH_BYTES: _SIZE}) as cursor:
            cursor.execute(self._text(query, columns, values))
            try:
                with cursor.fetch_record_batch() as reader:
                    yield from (batch for batch in reader if batch.num_rows)
            except (OSError, pa.ArrowException) as error:  # how Arrow reports a stream that ended too early
                raise adbc.OperationalError(str(error), status_code=AdbcStatusCode.IO) from error

    def _text(self, query: str, columns: list[str], values: dict[str, Any]) -> str:
        names = {"<columns>": columns, "<names>": GIVEN[query]}
        text = self._queries["pick_columns"]
        for place, chosen in names.items():
            text = text.replace(place, ", ".join(f'"{name}"' for name in chosen))
        return text.replace("<query>", _filled(self._queries[query], values))


def _filled(text: str, values: dict[str, Any]) -> str:
    """COPY cannot have parameters: each value is quoted by the driver."""
    return PARAMETER.sub(lambda match: Literal(values[match[1]]).as_string(None), LIST_PARAMETER.sub(r":\1", text))


def _say(connection: Any, word: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(word)
