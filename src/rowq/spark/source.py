"""`format("rowq")`: where Spark requests readers and writers. Created in many processes, so it holds only the user's options."""

from __future__ import annotations

from collections.abc import MutableMapping

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, DataSourceStreamArrowWriter, DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from rowq.errors import InvalidArgument
from rowq.spark.lease import LeaseReader
from rowq.spark.options import LOG, Given
from rowq.spark.reader import LogReader, TableReader
from rowq.spark.request import Write, to_lease, to_log, to_read, to_write
from rowq.spark.sink import BatchSink, StreamSink
from rowq.spark.tables import PLACE_COLUMNS, SCHEMAS


class RowqSource(DataSource):
    """Queues of rowq. Filters are never pushed down to it: Spark 4.3 lets one DataFrame's filter leak into another's."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = Given(options)

    @classmethod
    def name(cls) -> str:
        return "rowq"

    def schema(self) -> StructType:
        return schema_of(self._given)

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(to_read(self._given), columns_of(self._given, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        columns = columns_of(self._given, schema)
        if self._given["mode"] == LOG:
            return LogReader(to_log(self._given), columns)
        return LeaseReader(to_lease(self._given), columns)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise InvalidArgument("a queue cannot be overwritten: use mode('append'), after `rowq purge` if it should be empty first")
        return BatchSink(self._write(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        if overwrite:
            raise InvalidArgument("a queue cannot be overwritten with every batch: use outputMode('append') or outputMode('update')")
        if "txnAppId" in self._given:
            raise InvalidArgument(
                "options txnAppId and txnVersion are for batch writes: a stream counts its batches itself; leave them out"
            )
        return StreamSink(self._write(schema))

    def _write(self, schema: StructType) -> Write:
        return to_write(self._given, schema.fieldNames())


def schema_of(given: Given) -> StructType:
    """The schema if the user gives none. Spark does not say here whether it is for a batch or a stream."""
    full = _full(given)
    names = given["columns"] or [name for name in full.names if name != "headers" or given["includeHeaders"]]
    unknown = [name for name in names if name not in full.names]
    if unknown:
        raise InvalidArgument(f"option columns: there is no column {unknown[0]}; the table has {', '.join(full.names)}")
    return from_arrow_schema(pa.schema([full.field(name) for name in names]))


def columns_of(given: Given, schema: StructType) -> list[str]:
    """The names to read. A schema given by the user may leave columns out, but not change them."""
    full = _full(given)
    asked = to_arrow_schema(schema, timezone="UTC")
    for field in asked:
        if field.name not in full.names:
            raise InvalidArgument(f"there is no column {field.name} in the schema of {_table(given)}, which has {', '.join(full.names)}")
        if field.type != full.field(field.name).type:
            offered = from_arrow_schema(pa.schema([full.field(field.name)]))[0].dataType.simpleString()
            raise InvalidArgument(f"column {field.name} is read as {offered}: give it that type in the schema, and cast it afterwards")
    return list(asked.names)


def _full(given: Given) -> pa.Schema:
    fields = list(SCHEMAS[_table(given)])
    return pa.schema([*fields, *PLACE_COLUMNS] if given["includeLease"] else fields)


def _table(given: Given) -> str:
    table: str | None = given["table"]
    return table or ("history" if given["mode"] == LOG else "messages")
