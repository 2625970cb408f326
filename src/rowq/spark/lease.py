"""A queue as a stream that consumes it. The ledger fixes which messages are in a batch before Spark can record the batch.

Spark asks for the latest offset after `start` only when everything up to `start` is in its commit log. So that request is the ack;
`commit` comes later, never for the last batch of a run, and acks once more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from rowq.spark.holder import Holder
from rowq.spark.ledger import Slice
from rowq.spark.options import BY_BATCH
from rowq.spark.request import Lease
from rowq.spark.tables import open_tabular

if TYPE_CHECKING:
    import pyarrow as pa

ALL_AT_ONCE = 1_000_000
"""The batch limit where Spark wants everything in one batch (trigger once): a transaction must not grow without bound."""


class Share(InputPartition):
    """Messages of a batch for one task."""

    def __init__(self, slice: Slice) -> None:
        super().__init__((slice.batch, slice.first, slice.last))
        self.slice = slice


class LeaseReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark creates one in the driver process, which holds the stream, and one in every task, which only reads."""

    def __init__(self, asked: Lease, columns: list[str]) -> None:
        self._asked = asked
        self._columns = columns
        self._holder: Holder | None = None
        self._is_bounded = False
        """Whether the run ends with what is there at its start."""
        self._left: int | None = None
        """How many messages a run with availableNow may still take."""
        self._began: float | None = None
        """When the last batch was taken."""

    def initialOffset(self) -> dict[str, Any]:
        return self._hold().offset()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._asked.most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._is_bounded = True
        if self._holder is not None:  # else it is counted once the checkpoint has been checked
            self._left = _in_sight(self._holder)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        holder = self._hold(start)
        after = holder.batch_of(start)
        if self._is_bounded and self._left is None:
            self._left = _in_sight(holder)
        batch = after
        if self._left == 0 or self._waits_for_more(holder):
            holder.ack(after)
        else:
            batch = holder.take(after, limit.max_rows if isinstance(limit, ReadMaxRows) else ALL_AT_ONCE)
        if batch != after:
            self._began = time.monotonic()
            if self._left is not None:
                self._left = max(0, self._left - holder.size(after, batch))
            if isinstance(limit, ReadMaxRows):  # else this batch is the only one
                holder.prefetch(batch, limit.max_rows, self._left)
        elif self._left is None:
            holder.pause()
        return holder.offset(batch)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._holder is None else self._holder.report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        holder = self._hold(start)
        parts = self._asked.parts
        one = self._asked.order == BY_BATCH
        slices = holder.slices(holder.batch_of(start), holder.batch_of(end), 1 if one else parts.least, None if one else parts.most_records)
        return [Share(slice) for slice in slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Share):
            return
        with open_tabular(self._asked.at.url()) as tabular:
            yield from tabular.read_slice(partition.slice, columns=self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        holder = self._hold(end)
        holder.ack(holder.batch_of(end))

    def stop(self) -> None:
        """The messages stay with the stream: Spark may have recorded their batch, and will ask for it again."""
        if self._holder is not None:
            self._holder.close()

    def _hold(self, start: dict[str, Any] | None = None) -> Holder:
        if self._holder is None:
            self._holder = Holder(self._asked, start)
        return self._holder

    def _waits_for_more(self, holder: Holder) -> bool:
        """Whether a batch would be too small and there is still time to wait for more. The first one is taken at once: it may have been
        leased before a crash."""
        least = self._asked.least
        if least is None or self._left is not None or self._began is None:
            return False
        return (time.monotonic() - self._began) * 1000 < self._asked.delay_ms and holder.waiting() < least


def _in_sight(holder: Holder) -> int:
    """All that a run may take if it ends with what is there now."""
    return holder.waiting(with_scheduled=True) + holder.held()
