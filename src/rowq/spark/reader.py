"""Tables as DataFrames, read in pieces by the executors, each over its own connection: a batch read of any table, and history and audit as
a read-only stream. A line is streamed once no earlier one can appear any more: see Tabular.settled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from rowq.errors import CheckpointMismatch
from rowq.spark.options import EARLIEST, LATEST
from rowq.spark.request import Log, Read
from rowq.spark.tables import Piece, Tabular, open_tabular

_log = logging.getLogger("rowq.spark")


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
            pieces = tabular.pieces(asked.table, (first, last), asked.parts.least, asked.parts.most_records)
        return [Rows(piece, queues) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        times = {"since": self._asked.since_ms, "until": self._asked.until_ms}
        where = {**dict(self._asked.where), **{name: ms for name, ms in times.items() if ms is not None}}
        yield from _read(self._asked, partition, self._columns, where, self._asked.states)


class LogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, asked: Log, columns: list[str]) -> None:
        self._asked = asked
        self._columns = columns
        self._tabular: Tabular | None = None
        self._target: int | None = None
        """The last line of a run with availableNow."""
        self._identity = ""
        self._queues: tuple[str, ...] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Without a landmark: earlier lines may still appear before a line that the user names."""
        first = self._first()
        return self._place(first, first, 0)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._asked.most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._open().settled(self._asked.table)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        first, after, beginning = self._begun(start)
        settled = self._open().settled(self._asked.table) if self._target is None else self._target
        upto = min(settled, after + limit.max_rows) if isinstance(limit, ReadMaxRows) else settled
        if upto > after:
            return self._offset(upto, first, beginning)
        if self._target is None:
            threading.Event().wait(self._asked.poll_ms / 1000)
        return start

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._tabular is None else {"table": self._asked.table, "line": self._tabular.settled(self._asked.table)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """From the offsets alone, so that a batch is the same after a restart. Spark does not record the first offset and asks for it
        again; by then `latest` has moved, but the end of the batch records where it was."""
        is_same = all(start.get(name, 0) == end.get(name, 0) for name in ("identity", "first", "beginning"))
        goes_on = is_same and start["line"] <= end["line"]
        after, upto = int(start["line"] if goes_on else end["first"]), int(end["line"])
        if upto <= after:
            return []
        pieces = self._open().pieces(self._asked.table, (after + 1, upto), self._asked.parts.least, self._asked.parts.most_records)
        return [Rows(piece, self._queues) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        since = {} if self._asked.since_ms is None else {"since": self._asked.since_ms}
        yield from _read(self._asked, partition, self._columns, since)

    def stop(self) -> None:
        if self._tabular is not None:
            self._tabular.close()

    def _first(self) -> int:
        """Where a new query begins. A start time given by the user is a filter, so reading begins with the first line."""
        if self._asked.start == LATEST:
            return self._open().settled(self._asked.table)
        return 0 if self._asked.start == EARLIEST else int(self._asked.start)

    def _begun(self, offset: dict[str, Any]) -> tuple[int, int, int]:
        """The line at which the query began, the line up to which all was read, and how often it was restarted from the beginning; refused
        if it cannot come from this database."""
        if offset.get("table") != self._asked.table:
            told = offset.get("table", "another kind of source")
            raise CheckpointMismatch(f"the checkpoint is of {told!r}, and table is {self._asked.table!r}: use a new checkpoint")
        line, beginning = int(offset["line"]), int(offset.get("beginning", 0))
        fault = self._fault_of(offset, line)
        if fault is None:
            return int(offset["first"]), line, beginning
        if not self._asked.fails_on_loss:
            _log.warning("the %s is not the one of the checkpoint, which is at line %s; continuing from line 0", self._asked.table, line)
            return 0, 0, beginning + 1
        raise CheckpointMismatch(
            f"the checkpoint has read {self._asked.table} up to line {line}, and the database {fault}; start with a new checkpoint, "
            "or let option failOnDataLoss=false begin with the first line that is there"
        )

    def _fault_of(self, offset: dict[str, Any], line: int) -> str | None:
        tabular = self._open()
        if offset.get("identity") != self._identity:
            return "is a different one"
        if line > tabular.last_line(self._asked.table):
            return "has fewer lines: it was restored"
        if "landmark" in offset:
            then, now = offset["landmark"], tabular.landmark(self._asked.table, line)
            # A landmark that is gone, by age or with its queue, proves nothing. Where there was none, none can have appeared.
            if now is not None and now != then and (then is None or now[0] >= then[0]):
                return "has other lines: it was restored, and others were written since"
        return None

    def _offset(self, line: int, first: int, beginning: int) -> dict[str, Any]:
        return self._place(line, first, beginning) | {"landmark": self._open().landmark(self._asked.table, line)}

    def _place(self, line: int, first: int, beginning: int) -> dict[str, Any]:
        self._open()
        return {"table": self._asked.table, "line": line, "first": first, "identity": self._identity, "beginning": beginning}

    def _open(self) -> Tabular:
        if self._tabular is None:
            self._queues = self._asked.queues.resolve(self._asked.at, insists=True)
            self._tabular = open_tabular(self._asked.at.url())
            self._identity = str(self._tabular.identity())
        return self._tabular


def _read(
    asked: Read | Log, partition: InputPartition, columns: list[str], where: dict[str, Any], states: tuple[str, ...] | None = None
) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, Rows):  # Spark creates one of its own for a table without rows
        return
    with open_tabular(asked.at.url()) as tabular:
        yield from tabular.read(partition.piece, queues=partition.queues, states=states, columns=columns, where=where)
