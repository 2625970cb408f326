"""One process that fuses single messages, and two on the same queue; and how busy the cores are, which PostgreSQL shares."""

from __future__ import annotations

import time
from functools import partial
from statistics import median

import rowq
from benchmarks.cores import Cores
from benchmarks.harness import Bar, Bench, Chapter, Claim, Gauge, Scores, Timing
from benchmarks.payload import payloads
from benchmarks.postgresql import callers
from benchmarks.postgresql.status_column import QUEUE
from benchmarks.scale import Scale
from benchmarks.servers import Host, on_postgresql
from benchmarks.together import Processes

NAME, TITLE = "postgresql-processes", "PostgreSQL: two processes of callers beside one"

CYCLE = Gauge("send, receive and ack", "/s")
BUSY = Gauge("least busy core", "%")

_ONE, _TWO = "one process", "two processes"
_ENOUGH, _SATURATED = 1.3, 85
_AT_REST = 15
"""What the cores may do while we rest, in percent. With more than that, others keep them busy, and full cores prove nothing of rowq."""


def run(bench: Bench) -> Chapter:
    return on_postgresql(bench, NAME, TITLE, _measure)


def _measure(bench: Bench, host: Host) -> Chapter:
    scores, rest = Scores(), []
    bench.progress.expect(bench.rounds)
    for number in range(bench.rounds):
        bench.progress.step(f"round {number + 1} of {bench.rounds}")
        rest.append(_busy_at_rest(bench.scale.process_seconds))
        for name, readings in _round(host, bench.scale).items():
            scores.add(name, readings)
    notes = [
        host.note,
        f"{bench.scale.callers} callers a process, each with a message at a time, over a backlog; all on one queue, no audit.",
        f"What must hold is a rate of {_ENOUGH} times, or no core left to give more: each above {_SATURATED} % busy with two processes.",
        f"The latter counts only on a quiet machine, up to {_AT_REST} %: before the rounds its busiest core was at {max(rest):.0f} %.",
    ]
    return Chapter(NAME, TITLE, scores.series(), _claims(scores, max(rest)), notes)


def _claims(scores: Scores, rest: float) -> list[Claim]:
    """One bar of the two: more cores than are there cannot be asked for."""
    ratios, busy = scores.ratio(CYCLE, _TWO, _ONE), scores.of(_TWO, BUSY)
    is_saturated = median(ratios) < _ENOUGH and median(busy) > _SATURATED and rest <= _AT_REST
    return [
        Claim("two processes to one", "x", ratios, None if is_saturated else Bar("at least", _ENOUGH)),
        Claim("least busy core, two processes", "%", busy, Bar("at least", _SATURATED) if is_saturated else None),
        Claim("least busy core, one process", "%", scores.of(_ONE, BUSY)),
    ]


def _busy_at_rest(seconds: float) -> float:
    """The busiest core, while nobody of ours works."""
    cores = Cores()
    time.sleep(seconds)
    return max(cores.busy())


def _round(host: Host, scale: Scale) -> dict[str, dict[Gauge, float]]:
    with host.database() as url:
        with rowq.connect(url) as broker:
            broker.configure(QUEUE, audit=False)
            broker.send_many(QUEUE, payloads(scale.few))
        sums: dict[str, dict[Gauge, Timing]] = {_ONE: {}, _TWO: {}}
        busy: dict[str, list[float]] = {_ONE: [], _TWO: []}
        with Processes(callers.WORK, [(url, scale.callers)] * 2) as pair:
            pair.turn(scale.process_seconds / 5)
            for number in range(scale.load_turns):
                for name, members in ((_ONE, [number % 2]), (_TWO, [0, 1])):
                    cores = Cores()
                    taken = host.turn(CYCLE, partial(pair.turn, scale.process_seconds, *members))
                    busy[name].append(min(cores.busy()))
                    sums[name] = {gauge: sums[name].get(gauge, Timing(0, 0)) + timing for gauge, timing in taken.items()}
        return {
            name: {**{gauge: timing.reading(gauge) for gauge, timing in each.items()}, BUSY: median(busy[name])}
            for name, each in sums.items()
        }
