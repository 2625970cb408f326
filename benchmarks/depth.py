"""Whether receive(10) feels what else is in the queue: a million ready messages, or many delayed, or many leased."""

from __future__ import annotations

import gc
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles

import rowq
from benchmarks.harness import Bar, Bench, Chapter, Claim, Gauge, Scores
from benchmarks.payload import payloads
from benchmarks.scratch import url

MEDIAN = Gauge("receive(10), median", "µs")
SLOW = Gauge("receive(10), 95 of 100 within", "µs")

_TAKEN = 10
_FILL = 5_000
_MOST = 1_000
_HOURS = 4 * 3600


def run(bench: Bench) -> Chapter:
    scale = bench.scale
    few, many = f"{scale.few:,} ready", f"{scale.many:,} ready"
    delayed, leased = f"{few}, {scale.aside:,} delayed", f"{few}, {scale.aside:,} leased"
    bench.progress.expect(4 + bench.rounds)
    with bench.scratch.room() as room, ExitStack() as stack:
        brokers = {name: stack.enter_context(_open(room / f"{number}.db")) for number, name in enumerate((few, many, delayed, leased))}
        bench.progress.step(f"filling: {leased}")
        _send(brokers[leased], scale.aside)
        _lease(brokers[leased], scale.aside)
        _send(brokers[leased], scale.few)
        bench.progress.step(f"filling: {delayed}")
        _send(brokers[delayed], scale.aside, delay=_HOURS)
        _send(brokers[delayed], scale.few)
        bench.progress.step(f"filling: {few}")
        _send(brokers[few], scale.few)
        bench.progress.step(f"filling: {many}")
        _send(brokers[many], scale.many)
        scores = _measure(bench, brokers)
    claims = [
        Claim(f"{name}: time, of that at {few}", "%", scores.percent(MEDIAN, name, few), Bar("at most", 130))
        for name in (many, delayed, leased)
    ]
    notes = ["The four databases take turns call by call. What was received is acked and sent anew, outside of the clock."]
    return Chapter("depth", "receive(10) on queues of different kinds, durability normal, no audit", scores.series(), claims, notes)


def _open(file: Path) -> rowq.Broker:
    broker = rowq.connect(url(file, "normal"))
    broker.configure("bench", audit=False)
    return broker


def _send(broker: rowq.Broker, count: int, *, delay: int = 0) -> None:
    for start in range(0, count, _FILL):
        broker.send_many("bench", payloads(min(_FILL, count - start), start), delay=delay)


def _lease(broker: rowq.Broker, count: int) -> None:
    for start in range(0, count, _MOST):
        broker.receive("bench", max=min(_MOST, count - start), lease=_HOURS)


def _measure(bench: Bench, brokers: dict[str, rowq.Broker]) -> Scores:
    scores = Scores()
    for number in range(bench.rounds):
        bench.progress.step(f"round {number + 1} of {bench.rounds}: receive(10) by turns")
        gc.collect()
        times: dict[str, list[float]] = {name: [] for name in brokers}
        for _ in range(bench.scale.samples):
            for name, broker in brokers.items():
                times[name].append(_receive(broker))
        for name, taken in times.items():
            scores.add(name, {MEDIAN: median(taken) * 1e6, SLOW: quantiles(taken, n=20)[-1] * 1e6})
    return scores


def _receive(broker: rowq.Broker) -> float:
    started = time.perf_counter()
    taken = broker.receive("bench", max=_TAKEN)
    seconds = time.perf_counter() - started
    assert len(taken) == _TAKEN
    broker.ack_many(taken)
    broker.send_many("bench", payloads(_TAKEN))
    return seconds
