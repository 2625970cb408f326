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
from benchmarks.scale import FULL, Scale
from benchmarks.servers import SERVER_CPU, Host, held_snapshot, on_postgresql
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


class Spent(NamedTuple):
    """What the server's processes had spent, so many seconds after the beginning."""

    seconds: float
    cpu: float


def run(bench: Bench) -> Chapter:
    return on_postgresql(bench, NAME, TITLE, _measure)


def _measure(bench: Bench, host: Host) -> Chapter:
    scale, scores = bench.scale, Scores()
    processed: list[int] = []
    bench.progress.expect(bench.rounds)
    for number in range(bench.rounds):
        bench.progress.step(f"round {number + 1} of {bench.rounds}, {_LEASES * scale.lease_seconds:g} s or more")
        load = _round(host, scale)
        processed.append(sum(receive.messages for receive in load.receives))
        for name, readings in _tenths(load.receives, load.spent).items():
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


def _round(host: Host, scale: Scale) -> _Load:
    with host.database() as url, rowq.connect(url) as broker:
        broker.configure(_QUEUE, audit=False, lease=scale.lease_seconds)
        for_a_moment = _Load(host, broker, scale, lambda seconds, messages: seconds > scale.lease_seconds / 8)
        for_a_moment.run()
        with held_snapshot(url):
            enough = _LEASES * scale.lease_seconds
            load = _Load(host, broker, scale, lambda seconds, messages: seconds > enough and messages >= scale.held)
            load.run()
        return load


class _Load:
    """Consumers that go on until enough has been done."""

    def __init__(self, host: Host, broker: rowq.Broker, scale: Scale, is_enough: Callable[[float, int], bool]) -> None:
        self._host = host
        self._broker = broker
        self._scale = scale
        self._is_enough = is_enough
        self._batch = payloads(scale.batch)
        self._seen: list[list[Receive]] = [[] for _ in range(scale.connections)]
        self._done = [0] * scale.connections
        self._began = 0.0
        self.spent: list[Spent] = []

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

    def _look(self) -> None:
        """At what the server's processes have spent, now and then."""
        seconds = time.perf_counter() - self._began
        if not self.spent or seconds > self.spent[-1].seconds + self._scale.lease_seconds / 10:
            self.spent.append(Spent(seconds, self._host.cpu()))

    def _receive(self, number: int) -> list[rowq.Delivery]:
        if number == 0:
            self._look()
        began = time.perf_counter()
        taken = self._broker.receive(_QUEUE, max=self._scale.batch)
        self._seen[number].append(Receive(began - self._began, time.perf_counter() - began, len(taken)))
        return taken


def _tenths(receives: list[Receive], spent: list[Spent]) -> dict[str, dict[Gauge, float]]:
    tenth = max(receive.began + receive.took for receive in receives) / 10
    first, last = [look for look in spent if look.seconds < 2 * tenth], [look for look in spent if look.seconds >= 8 * tenth]
    return {
        _FIRST: _readings([receive for receive in receives if receive.began < tenth], first, tenth),
        _LAST: _readings([receive for receive in receives if receive.began >= 9 * tenth], last, tenth),
    }


def _readings(receives: list[Receive], spent: list[Spent], seconds: float) -> dict[Gauge, float]:
    """`spent`: looked at a little longer than the tenth, since that is seldom."""
    messages = sum(receive.messages for receive in receives)
    busy = (spent[-1].cpu - spent[0].cpu) / (spent[-1].seconds - spent[0].seconds)
    times = [receive.took * 1e6 for receive in receives]
    some = [receive.took * 1e6 for receive in receives if receive.messages]
    none = [receive.took * 1e6 for receive in receives if not receive.messages]
    return {
        RATE: messages / seconds,
        SERVER_CPU: busy * seconds / messages * 1e6,
        MEAN: fmean(times),
        SLOW: quantiles(times, n=100)[-1],
        FULL_MEAN: fmean(some),
        EMPTY_MEAN: fmean(none),
    }
