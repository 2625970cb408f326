"""Five minutes at full speed: whether the last fifth is as quick as the first, and the ready table as small."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg

import rowq
from benchmarks.harness import Bar, Bench, Chapter, Claim, Gauge, Scores
from benchmarks.payload import payloads
from benchmarks.scale import FULL, Scale
from benchmarks.servers import SERVER_CPU, Host, on_postgresql
from benchmarks.together import Crew

NAME, TITLE = "postgresql-endurance", "PostgreSQL: minutes at full speed"

RATE = Gauge("send, receive and ack", "/s")
READY = Gauge("ready table, at most", "MB")

_QUEUE = "bench"
_NAMES = [f"{number} fifth" for number in ("first", "second", "third", "fourth", "last")]
_READY_SIZE = "SELECT pg_total_relation_size('rowq.rowq_ready')"
_LOOKS = 60
"""At the table's size, in a part."""


def run(bench: Bench) -> Chapter:
    return on_postgresql(bench, NAME, TITLE, _measure)


def _measure(bench: Bench, host: Host) -> Chapter:
    scale = bench.scale
    bench.progress.expect(len(_NAMES))
    with host.database() as url:
        scores = _run(bench, host, url)
    first, last = _NAMES[0], _NAMES[-1]
    largest = max(size for name in _NAMES for size in scores.of(name, READY))
    is_measured = scale.endurance_seconds >= FULL.endurance_seconds
    claims = [
        Claim(f"throughput: {last}, of {first}", "%", scores.percent(RATE, last, first), Bar("at least", 90), is_measured),
        Claim(f"ready table at most: {last}, of {first}", "%", scores.percent(READY, last, first), Bar("at most", 150), is_measured),
        Claim("ready table at most, in all", "MB", (largest,)),
    ]
    notes = [
        host.note,
        f"One run of {scale.endurance_seconds:g} s, whatever the number of rounds. {scale.connections} threads on one broker, no audit.",
        f"Each sends a batch of {scale.batch}, receives one and acks it, over a backlog of {scale.backlog:,}.",
        "The ready table's size is that with its index and its maps, as PostgreSQL tells it every second.",
    ]
    return Chapter(NAME, TITLE, scores.series(), claims, notes)


def _run(bench: Bench, host: Host, url: str) -> Scores:
    scale, scores = bench.scale, Scores()
    with rowq.connect(url) as broker, psycopg.connect(url, autocommit=True) as looking:
        broker.configure(_QUEUE, audit=False)
        for _ in range(scale.backlog // scale.batch):
            broker.send_many(_QUEUE, payloads(scale.batch))
        mill = _Mill(broker, scale)
        with ThreadPoolExecutor(1) as background:
            milling = background.submit(mill.run)
            try:
                for name in _NAMES:
                    bench.progress.step(name)
                    scores.add(name, _part(scale.endurance_seconds / len(_NAMES), mill, host, looking))
            finally:
                mill.stop()
            milling.result()
    return scores


def _part(seconds: float, mill: _Mill, host: Host, looking: psycopg.Connection) -> dict[Gauge, float]:
    largest, done, spent = 0, mill.done, host.cpu()
    began = time.perf_counter()
    while (left := began + seconds - time.perf_counter()) > 0:
        (size,) = looking.execute(_READY_SIZE).fetchone() or (0,)
        largest = max(largest, size)
        if mill.has_stopped(within=min(left, seconds / _LOOKS)):
            break  # it failed, and says so when it is asked for its result
    messages = mill.done - done
    rate = messages / (time.perf_counter() - began)
    return {RATE: rate, SERVER_CPU: (host.cpu() - spent) / max(1, messages) * 1e6, READY: largest / 1e6}


class _Mill:
    """Threads that send, receive and ack until they are stopped."""

    def __init__(self, broker: rowq.Broker, scale: Scale) -> None:
        self._broker = broker
        self._scale = scale
        self._batch = payloads(scale.batch)
        self._done = [0] * scale.connections
        self._stopped = threading.Event()

    @property
    def done(self) -> int:
        return sum(self._done)

    def run(self) -> None:
        with Crew([partial(self._cycle, number) for number in range(self._scale.connections)]) as crew:
            crew.turn()

    def stop(self) -> None:
        self._stopped.set()

    def has_stopped(self, within: float) -> bool:
        return self._stopped.wait(within)

    def _cycle(self, number: int) -> int:
        try:
            while not self._stopped.is_set():
                self._broker.send_many(_QUEUE, self._batch)
                taken = self._broker.receive(_QUEUE, max=self._scale.batch, wait=10)
                self._done[number] += self._broker.ack_many(taken).count(rowq.Outcome.DONE)
        finally:
            self._stopped.set()
        return self._done[number]
