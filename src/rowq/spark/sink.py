"""DataFrames into queues. Tasks stage rows; one transaction turns them into messages, or finds that it has done so before."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rowq.errors import InvalidArgument
from rowq.spark.publish import Publisher, open_publisher
from rowq.spark.request import Write

if TYPE_CHECKING:
    import pyarrow as pa


KEPT = 200
"""How many batches of a stream are remembered as published: Spark replays the last one, and keeps a hundred itself."""


@dataclass
class Staged(WriterCommitMessage):
    """What one task has staged; `query` is the id that a stream keeps in its checkpoint."""

    stage: str | None
    count: int
    query: str | None = None


class BatchSink(DataSourceArrowWriter):
    def __init__(self, asked: Write) -> None:
        self._asked = asked

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._asked, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._asked.transaction is None:
            _publish(self._asked, None, 0, messages)
        else:
            application, version = self._asked.transaction
            _publish(self._asked, f"txn:{application}", version, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _discard(self._asked, messages)


class StreamSink(DataSourceStreamArrowWriter):
    def __init__(self, asked: Write) -> None:
        self._asked = asked

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._asked, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        queries = {each.query for each in _staged(messages)}
        if None in queries and not self._asked.is_direct:
            raise InvalidArgument("Spark does not report the id of the query, so its batches cannot be told apart: use deliveryMode=direct")
        for query in queries:  # one, or none if there was no task
            # A new checkpoint counts from 0 again: its batches are different ones, told apart by the id of its query.
            _publish(self._asked, f"sink:{self._asked.sink}:{query}", batchId, messages, KEPT)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002  # Spark's
        _discard(self._asked, messages)


def _write(asked: Write, batches: Iterator[pa.RecordBatch]) -> Staged:
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    with _open(asked) as publisher:
        if asked.is_direct:
            return Staged(None, publisher.send_directly(batches, asked.mapping), query)
        # Spark's task ids start over with each application: a stage left by a crash would be mistaken for this one.
        stage = str(uuid.uuid4())
        return Staged(stage, publisher.stage(stage, batches, asked.mapping), query)


def _publish(
    asked: Write, writer: str | None, version: int, messages: Sequence[WriterCommitMessage | None], kept: int | None = None
) -> None:
    """Without a writer the publication is not recorded: it is never asked for again."""
    stages = _stages(messages)
    if not asked.is_direct and stages:
        with _open(asked) as publisher:
            if writer is None:
                publisher.publish_unnumbered(stages)
            else:
                publisher.publish(writer, version, stages, kept=kept)


def _discard(asked: Write, messages: Sequence[WriterCommitMessage | None]) -> None:
    stages = _stages(messages)
    if stages:
        with _open(asked) as publisher:
            publisher.discard(stages)


def _stages(messages: Sequence[WriterCommitMessage | None]) -> list[tuple[str, int]]:
    return [(each.stage, each.count) for each in _staged(messages) if each.stage is not None]


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """Those of tasks that finished."""
    return [each for each in messages if isinstance(each, Staged)]


def _open(asked: Write) -> Publisher:
    return open_publisher(asked.at.url(), actor="spark", rows=asked.rows)
