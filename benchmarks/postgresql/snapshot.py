"""Whether rowq feels that somebody holds a snapshot open: the whole receive, the empty ones included, at the start and at the end.

Dead rows pile up in every table meanwhile, and after a lease's length also in the index of leases that have run out. Each consumer
sends a batch, then receives and acks until it finds nothing, and begins again; so every kind of receive happens all the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import fmean, quantiles
from typing import NamedTuple

import rowq
from benchmarks.harness import Bar, Bench, Chapter, Claim, Gauge, Scores
from benchmarks.payload import payloads
from benchmarks.postgresql.held import held_snapshot
from benchmarks.scale import FULL, Scale
from benchmarks.servers import Host, on_postgresql
from benchmarks.together import Crew

NAME, TITLE = "postgresql-snapshot", "PostgreSQL: receive while another connection holds a snapshot"

RATE = Gauge("send, receive and ack", "/s")
MEAN = Gauge("receive, mean", "µs")
SLOW = Gauge("receive, 99 of 100 within", "µs")
FULL_MEAN = Gauge("with messages, mean", "µs")
EMPTY_MEAN = Gauge("empty, mean", "µs")

_QUEUE = "bench"
_FIRST, _LAST = "first tenth", "last tenth"
_LEASES = 3.25
"""How many lease lengths it takes at least."""


class Receive(NamedTuple):
    began: float
    took: float
    messages: int


def run(bench: Bench) -> Chapter:
    return on_postgresql(bench, NAME, TITLE, _measure)


def _measure(bench: Bench, host: Host) -> Chapter:
    scale, scores = bench.scale, Scores()
    processed: list[int] = []
    bench.progress.expect(bench.rounds)
    for number in range(bench.rounds):
        bench.progress.step(f"round {number + 1} of {bench.rounds}, {_LEASES * scale.lease_seconds:g} s or more")
        receives = _round(host, scale)
        processed.append(sum(receive.messages for receive in receives))
        for name, readings in _tenths(receives).items():
            scores.add(name, readings)
    is_measured = scale.held >= FULL.held
    claims = [
        Claim("receive, mean: last tenth to first", "x", scores.ratio(MEAN, _LAST, _FIRST), Bar("at most", 2), is_measured),
        Claim("receive, 99 of 100 within: last tenth to first", "x", scores.ratio(SLOW, _LAST, _FIRST), Bar("at most", 2), is_measured),
        Claim("throughput: last tenth, of the first", "%", scores.percent(RATE, _LAST, _FIRST), Bar("at least", 70), is_measured),
    ]
    notes = [
        host.note,
        f"{scale.connections} consumers, each sends a batch of {scale.batch}, then receives and acks until it finds nothing. No audit.",
        f"A lease is {scale.lease_seconds:g} s. A round takes {_LEASES:g} lease lengths or more, and processed {min(processed):,} or more.",
    ]
    return Chapter(NAME, TITLE, scores.series(), claims, notes)


def _round(host: Host, scale: Scale) -> list[Receive]:
    with host.database() as url, rowq.connect(url) as broker:
        broker.configure(_QUEUE, audit=False, lease=scale.lease_seconds)
        for_a_moment = _Load(broker, scale, lambda seconds, messages: seconds > scale.lease_seconds / 8)
        for_a_moment.run()
        with held_snapshot(url):
            load = _Load(broker, scale, lambda seconds, messages: seconds > _LEASES * scale.lease_seconds and messages >= scale.held)
            load.run()
        return load.receives


class _Load:
    """Consumers that go on until enough has been done."""

    def __init__(self, broker: rowq.Broker, scale: Scale, is_enough: Callable[[float, int], bool]) -> None:
        self._broker = broker
        self._scale = scale
        self._is_enough = is_enough
        self._batch = payloads(scale.batch)
        self._seen: list[list[Receive]] = [[] for _ in range(scale.connections)]
        self._done = [0] * scale.connections
        self._began = 0.0

    @property
    def receives(self) -> list[Receive]:
        return [receive for seen in self._seen for receive in seen]

    def run(self) -> None:
        self._began = time.perf_counter()
        with Crew([partial(self._consume, number) for number in range(self._scale.connections)]) as crew:
            crew.turn()

    def _consume(self, number: int) -> int:
        while not self._is_enough(time.perf_counter() - self._began, sum(self._done)):
            self._broker.send_many(_QUEUE, self._batch)
            while (taken := self._receive(number)) and self._broker.ack_many(taken).count(rowq.Outcome.DONE) == len(taken):
                self._done[number] += len(taken)
            assert not taken, "a lease was lost: the machine is too slow for leases as short as these"
        return self._done[number]

    def _receive(self, number: int) -> list[rowq.Delivery]:
        began = time.perf_counter()
        taken = self._broker.receive(_QUEUE, max=self._scale.batch)
        self._seen[number].append(Receive(began - self._began, time.perf_counter() - began, len(taken)))
        return taken


def _tenths(receives: list[Receive]) -> dict[str, dict[Gauge, float]]:
    tenth = max(receive.began + receive.took for receive in receives) / 10
    return {
        _FIRST: _readings([receive for receive in receives if receive.began < tenth], tenth),
        _LAST: _readings([receive for receive in receives if receive.began >= 9 * tenth], tenth),
    }


def _readings(receives: list[Receive], seconds: float) -> dict[Gauge, float]:
    times = [receive.took * 1e6 for receive in receives]
    some = [receive.took * 1e6 for receive in receives if receive.messages]
    none = [receive.took * 1e6 for receive in receives if not receive.messages]
    return {
        RATE: sum(receive.messages for receive in receives) / seconds,
        MEAN: fmean(times),
        SLOW: quantiles(times, n=100)[-1],
        FULL_MEAN: fmean(some),
        EMPTY_MEAN: fmean(none),
    }
