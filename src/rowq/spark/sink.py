"""DataFrames into queues. Tasks stage rows; one transaction turns them into messages, or finds that it has done so before."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rowq.errors import InvalidArgument
from rowq.spark.publish import Publisher, open_publisher
from rowq.spark.request import Write

Messages = list[WriterCommitMessage | None]
"""One of each task; None if the task did not finish."""

KEPT = 200
"""How many batches of a stream are remembered as published: Spark replays the last one, and keeps a hundred itself."""


@dataclass
class Staged(WriterCommitMessage):
    """What one task has staged; `query` is the id that a stream keeps in its checkpoint."""

    stage: str | None
    count: int
    query: str | None = None


class _Sink:
    """What a batch and a stream have in common: tasks stage, the driver publishes or discards."""

    def __init__(self, asked: Write) -> None:
        self._asked = asked

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        asked, context = self._asked, TaskContext.get()
        query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
        with self._open() as publisher:
            if asked.is_direct:
                return Staged(None, publisher.send_directly(iterator, asked.mapping), query)
            # Spark's task ids start over with each application: a stage left by a crash would be mistaken for this one.
            stage = str(uuid.uuid4())
            return Staged(stage, publisher.stage(stage, iterator, asked.mapping), query)

    def _publish(self, writer: str | None, version: int, messages: Messages, kept: int | None = None) -> None:
        """Without a writer the publication is not recorded: it is never asked for again."""
        stages = _stages(messages)
        if not self._asked.is_direct and stages:
            with self._open() as publisher:
                if writer is None:
                    publisher.publish_unnumbered(stages)
                else:
                    publisher.publish(writer, version, stages, kept=kept)

    def _discard(self, messages: Messages) -> None:
        if stages := _stages(messages):
            with self._open() as publisher:
                publisher.discard(stages)

    def _open(self) -> Publisher:
        return open_publisher(self._asked.at.url(), actor="spark", rows=self._asked.rows)


class BatchSink(_Sink, DataSourceArrowWriter):
    def commit(self, messages: Messages) -> None:
        application, version = self._asked.transaction or (None, 0)
        self._publish(None if application is None else f"txn:{application}", version, messages)

    def abort(self, messages: Messages) -> None:
        self._discard(messages)


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    def commit(self, messages: Messages, batchId: int) -> None:
        queries = {each.query for each in _staged(messages)}
        if None in queries and not self._asked.is_direct:
            raise InvalidArgument("Spark does not report the id of the query, so its batches cannot be told apart: use deliveryMode=direct")
        for query in queries:  # one, or none if there was no task
            # A new checkpoint counts from 0 again: its batches are different ones, told apart by the id of its query.
            self._publish(f"sink:{self._asked.sink}:{query}", batchId, messages, KEPT)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002  # Spark's
        self._discard(messages)


def _stages(messages: Messages) -> list[tuple[str, int]]:
    return [(each.stage, each.count) for each in _staged(messages) if each.stage is not None]


def _staged(messages: Messages) -> list[Staged]:
    """Those of tasks that finished."""
    return [each for each in messages if isinstance(each, Staged)]
