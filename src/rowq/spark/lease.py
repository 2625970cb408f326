"""A queue as a stream that consumes it. The ledger fixes which messages are in a batch before Spark can record the batch.

Spark asks for the latest offset after `start` only when everything up to `start` is in its commit log. So that request is the ack;
`commit` comes later, never for the last batch of a run, and acks once more.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from rowq.errors import CheckpointMismatch, RowqError
from rowq.spark.ledger import Slice, Stream, open_ledger
from rowq.spark.options import BY_BATCH
from rowq.spark.request import Lease
from rowq.spark.tables import open_tabular

_log = logging.getLogger("rowq.spark")

ALL_AT_ONCE = 1_000_000
"""The batch limit where Spark wants everything in one batch (trigger once): a transaction must not grow without bound."""
REPORT_EVERY, REPORT_SHARE = 1.0, 0.05
"""Spark asks for figures about the queues at every trigger: they are counted at most once a second, for at most this share of the time."""
LONGEST_FAREWELL = 5.0
"""Seconds that a transaction has to finish."""


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


class Holder:
    """The one driver process that uses the ledger of a stream, under an epoch that ends all earlier ones."""

    def __init__(self, asked: Lease, start: dict[str, Any] | None = None) -> None:
        """`start`: where the checkpoint continues. A checkpoint that belongs elsewhere is refused before the stream is claimed, since a
        claim ousts the current holder."""
        self._asked = asked
        self._name = asked.stream
        self._ledger = open_ledger(asked.at.url(), actor=f"stream:{asked.stream}", migrate=False)
        try:
            self._identity = str(self._ledger.identity())
            if start is not None:
                self.batch_of(start)
            self._queues = asked.queues.resolve(asked.at, insists=True) or ()
            self._held = self._ledger.claim(self._name, self._queues)
            self._revoke_silent()
        except BaseException:
            self._ledger.close()
            raise
        self._batch = self._held.acked
        self._lag: dict[str, int] = {}
        self._report_again_at = 0.0
        self._is_closed = threading.Event()
        self._prefetcher = Prefetcher(self._lease_ahead, asked.poll_ms / 1000) if asked.ahead else None
        _end_politely()
        threading.Thread(target=self._beat, name="rowq-heartbeat", daemon=True).start()

    def offset(self, batch: int | None = None) -> dict[str, Any]:
        """What Spark writes into its checkpoint; without a batch, where a new query begins."""
        return {"stream": self._name, "batch": self._held.acked if batch is None else batch, "identity": self._identity}

    def batch_of(self, offset: dict[str, Any]) -> int:
        if offset.get("stream") != self._name:
            told = offset.get("stream", "another kind of source")
            raise CheckpointMismatch(
                f"the checkpoint belongs to {told!r}, and streamId is {self._name!r}: give each streamId a checkpoint of its own"
            )
        if offset.get("identity") != self._identity:
            raise CheckpointMismatch(
                f"the checkpoint of {self._name!r} was written for another database: start with a new checkpoint, "
                "or give the URL of that database"
            )
        return int(offset["batch"])

    def take(self, after: int, most: int) -> int:
        """The next batch; `after` if there is none."""
        settled = self._settled(after)
        found = self._ledger.take(self._name, self._held.epoch, settled, most, self._asked.most_bytes)
        self._batch = after if found == settled else found
        if self._prefetcher is not None and self._batch == after:
            self._prefetcher.ask(None)  # Spark itself looks for the next one now
        return self._batch

    def prefetch(self, after: int, most: int, enough: int | None) -> None:
        """Leases batches after that one in advance, of `most` messages each and `enough` in total, if the user has enabled it."""
        if self._prefetcher is not None:
            self._prefetcher.ask(Wish(after, most, enough))

    def ack(self, upto: int) -> None:
        self._ledger.ack(self._name, self._held.epoch, self._settled(upto))

    def slices(self, after: int, upto: int, parts: int, most: int | None) -> list[Slice]:
        settled = self._settled(after)
        return self._ledger.slices(self._name, settled, upto, parts, most) if upto > settled else []

    def waiting(self, *, with_scheduled: bool = False) -> int:
        """How many messages could be taken now, including those behind the head of their group; with `with_scheduled` also those that may
        be due, which only a take can tell."""
        lag = self._ledger.lag(self._queues)
        return lag["ready"] + lag["blocked"] + (lag["scheduled"] if with_scheduled else 0)

    def size(self, after: int, upto: int) -> int:
        """How many messages are between two offsets."""
        return sum(slice.count for slice in self.slices(after, upto, 1, None))

    def held(self) -> int:
        """How many messages are in batches that are not settled."""
        return sum(stream.messages for stream in self._ledger.streams() if stream.name == self._name)

    def report(self) -> dict[str, Any]:
        """For Spark's progress reports: the lag of the queues."""
        began = time.monotonic()
        if began >= self._report_again_at:
            self._lag = self._ledger.lag(self._queues)
            self._report_again_at = began + max(REPORT_EVERY, (time.monotonic() - began) / REPORT_SHARE)
        return {**self.offset(self._batch), **self._lag}

    def pause(self) -> None:
        """There was nothing: Spark would ask again after 10 ms."""
        self._is_closed.wait(self._asked.poll_ms / 1000)

    def close(self) -> None:
        self._is_closed.set()
        if self._prefetcher is not None:
            self._prefetcher.close()
        self._ledger.close()

    def _settled(self, batch: int) -> int:
        """The user may drop batches that were revoked, or settled by a later copy of the checkpoint; otherwise the ledger refuses."""
        return batch if self._asked.fails_on_loss else max(batch, self._held.acked)

    def _lease_ahead(self, wish: Wish) -> int | None:
        asked, epoch = self._asked, self._held.epoch
        return self._ledger.lease_ahead(self._name, epoch, wish.after, wish.most, asked.most_bytes, batches=asked.ahead, enough=wish.enough)

    def _beat(self) -> None:
        """While Spark processes a batch it asks nothing, and the stream would look dead."""
        while not self._is_closed.wait(self._asked.beat_ms / 1000):
            try:
                self._ledger.beat(self._name, self._held.epoch)
                self._revoke_silent()
            except RowqError as error:  # Spark's next request fails with it too, and reports it there
                _log.warning("heartbeat of stream %s failed: %s", self._name, error)

    def _revoke_silent(self) -> None:
        """Revokes other streams whose holder has been silent for too long, so that their messages return. The current time is our own last
        beat, by the database's clock."""
        if self._asked.timeout_ms is None:
            return
        streams = self._ledger.streams()
        now = max(stream.beat_at for stream in streams if stream.name == self._name)
        for stream in streams:
            if self._is_rival(stream) and now - stream.beat_at > self._asked.timeout_ms:
                count = self._ledger.revoke(stream.name)
                _log.warning("revoked stream %s, silent for %s s: %s messages", stream.name, (now - stream.beat_at) // 1000, count)

    def _is_rival(self, stream: Stream) -> bool:
        return stream.name != self._name and stream.messages > 0 and not set(self._queues).isdisjoint(stream.queues)


def _end_politely() -> None:
    """Spark ends this process with SIGTERM, which would leave connections for the database to find dead."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


class Wish(Struct, frozen=True):
    """Batches after the one that Spark processes; no more of them once they hold `enough` messages."""

    after: int
    most: int
    enough: int | None


class Prefetcher:
    """Leases batches before Spark asks for them, in a thread of the process that holds the stream, while Spark processes the previous one.
    The next `take` finds them, as it finds a batch left by a crash.

    `lease` creates one batch and gives its number; `wish.after` while there is too little to take, None when the wish is fulfilled.
    """

    def __init__(self, lease: Callable[[Wish], int | None], pause: float) -> None:
        self._lease = lease
        self._pause = pause
        self._wish: Wish | None = None
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="rowq-prefetch", daemon=True)
        self._thread.start()

    def ask(self, wish: Wish | None) -> None:
        """Replaces the previous wish."""
        with self._changed:
            self._wish = wish
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(LONGEST_FAREWELL)

    def _run(self) -> None:
        while (wish := self._next()) is not None:
            made = self._try(wish)
            with self._changed:
                if made is None and self._wish is wish:
                    self._wish = None
                elif made == wish.after:
                    self._changed.wait_for(lambda wish=wish: self._is_closed or self._wish is not wish, self._pause)  # type: ignore[misc]

    def _next(self) -> Wish | None:
        """None means the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._wish is not None)
            return None if self._is_closed else self._wish

    def _try(self, wish: Wish) -> int | None:
        try:
            return self._lease(wish)
        except RowqError as error:  # Spark's next request fails with it too, and reports it there
            _log.warning("nothing is leased ahead of batch %s: %s", wish.after, error)
            return None
