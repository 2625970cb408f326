"""The holder of a stream: the one driver process that uses the ledger, under an epoch that ends all earlier ones."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from typing import Any

from rowq.errors import CheckpointMismatch, RowqError
from rowq.spark.ledger import Slice, Stream, open_ledger
from rowq.spark.prefetch import Prefetcher, Wish
from rowq.spark.request import Lease

_log = logging.getLogger("rowq.spark")

REPORT_EVERY, REPORT_SHARE = 1.0, 0.05
"""Spark asks for figures about the queues at every trigger: they are counted at most once a second, for at most this share of the time."""


class Holder:
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
