"""`format("rowq")`: where Spark requests readers and writers. Created in many processes, so it holds only the user's options."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, DataSourceStreamArrowWriter, DataSourceStreamReader
from pyspark.sql.types import StructType

from rowq.errors import InvalidArgument
from rowq.spark.options import LOG, Given
from rowq.spark.request import to_lease, to_log, to_read, to_write

if TYPE_CHECKING:
    from rowq.spark.request import Write


class RowqSource(DataSource):
    """Queues of rowq. Filters are never pushed down to it: Spark 4.3 lets one DataFrame's filter leak into another's."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = Given(options)

    @classmethod
    def name(cls) -> str:
        return "rowq"

    def schema(self) -> StructType:
        from rowq.spark.shape import schema_of

        return schema_of(self._given)

    def reader(self, schema: StructType) -> DataSourceReader:
        from rowq.spark.batch import TableReader
        from rowq.spark.shape import columns_of

        return TableReader(to_read(self._given), columns_of(self._given, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from rowq.spark.lease import LeaseReader
        from rowq.spark.log import LogReader
        from rowq.spark.shape import columns_of

        columns = columns_of(self._given, schema)
        if self._given["mode"] == LOG:
            return LogReader(to_log(self._given), columns)
        return LeaseReader(to_lease(self._given), columns)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from rowq.spark.sink import BatchSink

        if overwrite:
            raise InvalidArgument("a queue cannot be overwritten: use mode('append'), after `rowq purge` if it should be empty first")
        return BatchSink(self._write(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from rowq.spark.sink import StreamSink

        if overwrite:
            raise InvalidArgument("a queue cannot be overwritten with every batch: use outputMode('append') or outputMode('update')")
        if "txnAppId" in self._given:
            raise InvalidArgument(
                "options txnAppId and txnVersion are for batch writes: a stream counts its batches itself; leave them out"
            )
        return StreamSink(self._write(schema))

    def _write(self, schema: StructType) -> Write:
        return to_write(self._given, schema.fieldNames())
