"""The meter of one worker among several: it counts for itself, and reads the counts of all.

It publishes its counts in the worker state every second, and always before it reports any: a reported count is visible to the others
even if this worker is killed right after. Its replacement continues from there, so no counter ever goes back.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from rowq.clock import running
from rowq.server.worker_state import WorkerState
from rowq.store.meter import OTHER, Counted, Histogram, Meter, QueueMeter, RequestMeter, StoreMeter

EVERY = 1.0
MOST_GONE = 10_000

_Spread = tuple[list[int], float]
_Queue = tuple[float, dict[str, int], _Spread, _Spread]
_Store = tuple[_Spread, _Spread, _Spread, _Spread, int]
_Requests = tuple[list[int], list[_Spread]]

_encode = msgspec.msgpack.Encoder().encode
_decode_counted = msgspec.msgpack.Decoder(tuple[dict[str, _Queue], _Store, _Requests]).decode
_decode_gone = msgspec.msgpack.Decoder(dict[str, float]).decode


class SharedMeter(Meter):
    def __init__(self, worker_state: WorkerState, worker: int, **options: Any) -> None:
        super().__init__(**options)
        self._worker_state = worker_state
        self._worker = worker
        self._publishing = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._publish_on, name="rowq-meter", daemon=True)
        predecessor = self._read_counted(worker)
        if predecessor is not None:
            self._queues, self._store, self.requests = predecessor
            self._other = self._queues.pop(OTHER, None)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self.publish()

    def read(self) -> Counted:
        """The counts of all workers, replaced ones included."""
        counted = [self.publish(), *(self._read_counted(worker) for worker in range(self._worker_state.workers) if worker != self._worker)]
        # Read after the counts: a worker marks a queue as gone before it removes it from its counts.
        gone = self._read_gone()
        queues: dict[str, QueueMeter] = {}
        store, requests = StoreMeter(), RequestMeter()
        for theirs in counted:
            if theirs is None:
                continue
            for label, queue in theirs.queues.items():
                if queue.since >= gone.get(label, 0.0):
                    queues.setdefault(label, QueueMeter(queue.since)).add(queue)
            store.add(theirs.store)
            requests.add(theirs.requests)
        return Counted(queues, store, requests)

    def labels(self) -> set[str]:
        return set(self.read().queues) - {OTHER}

    def forget(self, queues: Iterable[str]) -> None:
        """For all workers at once: counts up to now are no longer reported, and each worker drops its own when it next publishes."""
        now = running()
        with self._publishing:
            self._worker_state.gone[self._worker].write(_encode(dict.fromkeys(sorted(queues)[:MOST_GONE], now)))
        self.publish()

    def publish(self) -> Counted:
        """Returns what was written."""
        with self._publishing:
            self._put_away()
            counted = super().read()
            queues = {label: _queue(queue) for label, queue in counted.queues.items()}
            self._worker_state.counted[self._worker].write(_encode((queues, _store(counted.store), _requests(counted.requests))))
            return counted

    def _publish_on(self) -> None:
        while not self._stop.wait(EVERY):
            self.publish()

    def _put_away(self) -> None:
        gone = self._read_gone()
        with self._lock:
            for label in gone.keys() & self._queues.keys():
                if self._queues[label].since < gone[label]:
                    del self._queues[label]

    def _delete(self, queue: str) -> None:
        """Not yet: the other workers still count it. All forget it together, once one of them has listed the queues."""

    def _read_counted(self, worker: int) -> Counted | None:
        content = self._worker_state.counted[worker].read()
        if not content:
            return None
        queues, store, requests = _decode_counted(content)
        return Counted({label: _to_queue(queue) for label, queue in queues.items()}, _to_store(store), _to_requests(requests))

    def _read_gone(self) -> dict[str, float]:
        gone: defaultdict[str, float] = defaultdict(float)
        for page in self._worker_state.gone:
            content = page.read()
            for label, moment in (_decode_gone(content) if content else {}).items():
                gone[label] = max(gone[label], moment)
        return gone


def _queue(queue: QueueMeter) -> _Queue:
    return queue.since, queue.counts, _spread(queue.waits), _spread(queue.processing)


def _to_queue(values: _Queue) -> QueueMeter:
    queue = QueueMeter(values[0])
    queue.counts.update(values[1])
    _fill(queue.waits, values[2])
    _fill(queue.processing, values[3])
    return queue


def _store(store: StoreMeter) -> _Store:
    return _spread(store.calls), _spread(store.rows), _spread(store.latency[True]), _spread(store.latency[False]), store.failures


def _to_store(values: _Store) -> StoreMeter:
    store = StoreMeter()
    for histogram, value in zip((store.calls, store.rows, store.latency[True], store.latency[False]), values[:4], strict=True):
        _fill(histogram, value)
    store.failures = values[4]
    return store


def _requests(requests: RequestMeter) -> _Requests:
    return list(requests.answers.values()), [_spread(histogram) for histogram in requests.latency.values()]


def _to_requests(values: _Requests) -> RequestMeter:
    requests = RequestMeter()
    requests.answers = dict(zip(requests.answers, values[0], strict=True))
    for histogram, value in zip(requests.latency.values(), values[1], strict=True):
        _fill(histogram, value)
    return requests


def _spread(histogram: Histogram) -> _Spread:
    return histogram.counts, histogram.total


def _fill(histogram: Histogram, values: _Spread) -> None:
    histogram.counts[:], histogram.total = values
