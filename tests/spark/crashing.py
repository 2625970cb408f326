"""A Spark driver that moves messages from `orders` to `done`, and is killed at a point that its environment names.

Run as `python -m tests.spark.crashing URL CHECKPOINT until-empty|for-ever`. The points are put around the source's own methods here, and
are nowhere in it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamReader, InputPartition, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

import rowq.spark
from rowq.spark.lease import LeaseReader
from rowq.spark.options import Given
from rowq.spark.request import to_lease, to_write
from rowq.spark.sink import StreamSink
from rowq.spark.source import RowqSource, columns_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

POINTS = ("leased, before the log", "in read", "before the sink's transaction", "after it", "before the ack", "after the ack")
LEASED, READ, BEFORE_SINK, AFTER_SINK, BEFORE_ACK, AFTER_ACK = POINTS
BATCH = 5
_POINT, _GROUP = "ROWQ_TEST_CRASH_AT", "ROWQ_TEST_CRASH_GROUP"


def crash_at(point: str) -> None:
    """Kills driver and JVM, which are one process group, and then whoever calls: a task, or a helper of the driver."""
    if os.environ.get(_POINT) == point:
        os.killpg(int(os.environ[_GROUP]), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class CrashingReader(LeaseReader):
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if start != self.initialOffset():  # a batch of this very run is in the commit log
            crash_at(BEFORE_ACK)
        latest = super().latestOffset(start, limit)
        if latest != start:
            crash_at(LEASED)
        return latest

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            crash_at(READ)
            yield batch

    def commit(self, end: dict[str, Any]) -> None:
        super().commit(end)
        crash_at(AFTER_ACK)


class CrashingSink(StreamSink):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        crash_at(BEFORE_SINK)
        super().commit(messages, batchId)
        crash_at(AFTER_SINK)


class CrashingSource(RowqSource):
    @classmethod
    def name(cls) -> str:
        return "crashing"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        given = Given(self.options)
        return CrashingReader(to_lease(given), columns_of(given, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return CrashingSink(to_write(Given(self.options), schema.fieldNames()))


def move(url: str, checkpoint: str, end: str) -> None:
    """In batches of five. Who moves for ever also leases the next batch ahead."""
    os.environ[_GROUP] = str(os.getpgrp())
    spark = rowq.spark.session("local[2]", "crashing", **{"spark.log.level": "ERROR"})
    move_in(spark, url, checkpoint, for_ever=end == "for-ever")
    spark.stop()


def move_in(spark: SparkSession, url: str, checkpoint: str, *, for_ever: bool = False) -> None:
    spark.dataSource.register(CrashingSource)
    source = {"url": url, "queue": "orders", "streamId": "mover", "maxMessagesPerTrigger": str(BATCH), "columns": "payload,format"}
    more = {"pollInterval": "10ms", "minPartitions": "2", "prefetchBatches": "1" if for_ever else "0"}
    frame = spark.readStream.format("crashing").options(**source, **more).load()
    sink = {"url": url, "queue": "done", "formatColumn": "format", "checkpointLocation": checkpoint}
    writer = frame.writeStream.format("crashing").options(**sink)
    query = (writer.trigger(processingTime="0 seconds") if for_ever else writer.trigger(availableNow=True)).start()
    query.awaitTermination()


if __name__ == "__main__":
    # By its name, so that tasks find these classes by theirs.
    from tests.spark import crashing

    crashing.move(*sys.argv[1:])
