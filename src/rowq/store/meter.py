"""The meter: counts what committed transactions did, by queue. The server attaches one to its engine.

A `Tally` collects what one transaction does, and the `Meter` adds it after the commit: what is rolled back is never counted. Without a
meter there is no tally, and the store only checks whether there is one.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rowq.clock import running

MAX_QUEUES = 1_000
OTHER = "(other)"
"""The label of all queues beyond the first thousand; no queue can have this name."""

MAX_RETURNED = 50_000
SPAN_MS = (1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000)
LATENCY = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REQUESTS = ("send", "receive", "settle", "other")
"""Kinds of requests. Settling is ack, nack, reject, reschedule and extend."""
STATUSES = (2, 3, 4, 5)
"""The first digit of an HTTP status."""
SIZES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)


class Histogram:
    """How many values fell into each bucket. `counts` has one more entry, for values beyond the last bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, other: Histogram) -> None:
        """Adds the values of another histogram with the same bounds."""
        self.counts = [ours + theirs for ours, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def copy(self) -> Histogram:
        twin = Histogram(self.bounds)
        twin.counts[:] = self.counts
        twin.total = self.total
        return twin


class Tally:
    """What one transaction does. Events have the names of the audit; a dead letter is counted as `dead:` and its reason."""

    __slots__ = ("acked", "counts", "deleted", "delivered", "returned")

    def __init__(self) -> None:
        self.counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.returned: dict[int, int] = {}
        """Messages that returned to their queue, and when they are due."""
        self.delivered: list[tuple[str, list[tuple[int, int, int]]]] = []
        """By queue: seq, previous attempts, and when the message was first due."""
        self.acked: list[tuple[str, int]] = []
        """Queue, and when the message was leased."""
        self.deleted: list[str] = []
        """Queues that were deleted."""


class QueueMeter:
    __slots__ = ("counts", "processing", "since", "waits")

    def __init__(self, since: float = 0.0) -> None:
        self.since = since
        """When counting began, by `rowq.clock.running`."""
        self.counts: defaultdict[str, int] = defaultdict(int)
        self.waits = Histogram(SPAN_MS)
        self.processing = Histogram(SPAN_MS)

    def add(self, other: QueueMeter) -> None:
        for event, count in other.counts.items():
            self.counts[event] += count
        self.waits.add(other.waits)
        self.processing.add(other.processing)

    def copy(self) -> QueueMeter:
        twin = QueueMeter(self.since)
        twin.counts.update(self.counts)
        twin.waits, twin.processing = self.waits.copy(), self.processing.copy()
        return twin


class StoreMeter:
    """The transactions themselves: how long they took, by whether they were synced, and how many calls and rows each had."""

    __slots__ = ("calls", "failures", "latency", "rows")

    def __init__(self) -> None:
        self.calls = Histogram(SIZES)
        self.rows = Histogram(SIZES)
        self.latency = {True: Histogram(LATENCY), False: Histogram(LATENCY)}
        self.failures = 0

    def add(self, other: StoreMeter) -> None:
        self.calls.add(other.calls)
        self.rows.add(other.rows)
        for durable, histogram in self.latency.items():
            histogram.add(other.latency[durable])
        self.failures += other.failures

    def copy(self) -> StoreMeter:
        twin = StoreMeter()
        twin.calls, twin.rows, twin.failures = self.calls.copy(), self.rows.copy(), self.failures
        twin.latency = {durable: histogram.copy() for durable, histogram in self.latency.items()}
        return twin


class RequestMeter:
    """The requests that a server answered: duration and status, by kind."""

    __slots__ = ("answers", "latency")

    def __init__(self) -> None:
        self.answers = {(request, status): 0 for request in REQUESTS for status in STATUSES}
        self.latency = {request: Histogram(LATENCY) for request in REQUESTS}

    def answered(self, request: str, status: int, seconds: float) -> None:
        """Needs no lock: one thread answers all requests of a process."""
        self.answers[request, status // 100] += 1
        self.latency[request].observe(seconds)

    def add(self, other: RequestMeter) -> None:
        for ending, count in other.answers.items():
            self.answers[ending] += count
        for request, histogram in self.latency.items():
            histogram.add(other.latency[request])

    def copy(self) -> RequestMeter:
        twin = RequestMeter()
        twin.add(self)
        return twin


class Counted(NamedTuple):
    """A snapshot of the meter: queues by label, transactions, and requests."""

    queues: dict[str, QueueMeter]
    store: StoreMeter
    requests: RequestMeter


class Meter:
    def __init__(self, *, max_queues: int = MAX_QUEUES) -> None:
        self._max_queues = max_queues
        self._lock = threading.Lock()
        self._queues: dict[str, QueueMeter] = {}
        self._other: QueueMeter | None = None
        self._store = StoreMeter()
        self.requests = RequestMeter()
        self._returned: OrderedDict[int, int] = OrderedDict()

    def take(self, tally: Tally, now: int) -> None:
        """Adds the tally of a transaction that was committed at `now`."""
        with self._lock:
            for (queue, event), count in tally.counts.items():
                self._of(queue).counts[event] += count
            if tally.returned:
                self._remember(tally.returned)
            for queue, deliveries in tally.delivered:
                self._deliver(self._of(queue), deliveries, now)
            for queue, leased_at in tally.acked:
                self._of(queue).processing.observe(max(0, now - leased_at))
            for queue in tally.deleted:
                self._delete(queue)

    def committed(self, *, calls: int, rows: int, seconds: float, durable: bool) -> None:
        with self._lock:
            self._store.calls.observe(calls)
            self._store.rows.observe(rows)
            self._store.latency[durable].observe(seconds)

    def failed(self) -> None:
        """A transaction was rolled back."""
        with self._lock:
            self._store.failures += 1

    def label(self, queue: str) -> str:
        """The label under which the queue is reported: its own name as long as there is room. Counting starts now."""
        with self._lock:
            self._of(queue)
            return queue if queue in self._queues else OTHER

    def labels(self) -> set[str]:
        with self._lock:
            return set(self._queues)

    def forget(self, queues: Iterable[str]) -> None:
        with self._lock:
            for queue in queues:
                self._queues.pop(queue, None)

    def read(self) -> Counted:
        return Counted(self.read_queues(), self.read_store(), self.requests.copy())

    def read_queues(self) -> dict[str, QueueMeter]:
        """By label, as of now. The lock is released between queues, so a committing transaction waits for one copy at most."""
        with self._lock:
            queues = dict(self._queues) if self._other is None else {**self._queues, OTHER: self._other}
        return {label: self._copy(meter) for label, meter in queues.items()}

    def read_store(self) -> StoreMeter:
        with self._lock:
            return self._store.copy()

    def _of(self, queue: str) -> QueueMeter:
        found = self._queues.get(queue)
        if found is not None:
            return found
        if len(self._queues) < self._max_queues:
            found = self._queues[queue] = QueueMeter(running())
            return found
        if self._other is None:
            self._other = QueueMeter(running())
        return self._other

    def _delete(self, queue: str) -> None:
        self._queues.pop(queue, None)

    def _copy(self, meter: QueueMeter) -> QueueMeter:
        with self._lock:
            return meter.copy()

    def _remember(self, returned: dict[int, int]) -> None:
        """Remembers when returned messages became ready, which the tables do not tell. The oldest entries are dropped first."""
        for seq, due in returned.items():
            self._returned[seq] = due
            self._returned.move_to_end(seq)
        while len(self._returned) > MAX_RETURNED:
            self._returned.popitem(last=False)

    def _deliver(self, meter: QueueMeter, deliveries: list[tuple[int, int, int]], now: int) -> None:
        for seq, attempts, first in deliveries:
            since = self._returned.pop(seq, None if attempts else first)
            if since is not None:
                meter.waits.observe(max(0, now - since))
