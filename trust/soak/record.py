"""What a soak has measured: a reading a second, the latencies part by part, and what was left at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import quantiles

import msgspec

from trust.soak.news import Sum

PARTS = 10
"""A run of ten million is told of million by million."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much, and of what."""

    messages: int
    minutes: float | None = None
    """After which no more are sent; then `messages` of the record is how many there were."""
    seed: int
    clients: int = 2
    threads: int = 4
    batch: int = 250
    ahead: int = 4
    kept: float = 15.0
    """Seconds for which history, audit and dead letters are kept."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes, but for `at` (seconds since the beginning), `done`, `depth` and `elsewhere`."""

    at: float
    done: int
    """Messages that were acked or are dead."""
    depth: int
    """Messages that were sent and are not done."""
    server: int
    """What the server's process has written into memory of its own."""
    server_resident: int
    """What it has in memory at all."""
    backends: int
    """Of the database's processes that work for it."""
    file: int
    log: int
    free: int
    elsewhere: float
    """The share of the machine that was busy with something else."""


class Latency(msgspec.Struct, frozen=True):
    """Of the calls of one verb, in microseconds."""

    calls: int
    p50: float
    p99: float


class Latencies:
    """Calls by verb, as they come in."""

    def __init__(self) -> None:
        self._heard: list[tuple[int, Mapping[str, Sequence[int]]]] = []

    def add(self, done: int, micros: Mapping[str, Sequence[int]]) -> None:
        self._heard.append((done, micros))

    def parts(self, messages: int) -> list[dict[str, Latency]]:
        """One for each tenth of all messages."""
        size = max(1, messages // PARTS)
        parts: list[defaultdict[str, list[int]]] = [defaultdict(list) for _ in range(PARTS)]
        for done, micros in self._heard:
            for verb, calls in micros.items():
                parts[min(done // size, PARTS - 1)][verb].extend(calls)
        return [{verb: _latency(calls) for verb, calls in sorted(part.items()) if len(calls) > 1} for part in parts]


class Record(msgspec.Struct, kw_only=True):
    database: str
    plan: Plan
    began_at: int
    """Milliseconds since 1970."""
    seconds: float
    """Until the last message was done."""
    machine: dict[str, str]
    readings: list[Reading]
    latencies: list[dict[str, Latency]]
    sent: Sum
    acked: Sum
    dead: Sum
    stale: int
    calls: int
    errors: dict[str, int]
    left: dict[str, int]
    """Rows that were still there when all was done and everything had been kept for long enough, by table."""

    def between(self, first: float, last: float) -> list[Reading]:
        """From one share of the messages to another: 0.5 to 1 is the second half."""
        return [each for each in self.readings if first * self.plan.messages <= each.done <= last * self.plan.messages]

    def series(self, of: Callable[[Reading], float]) -> list[tuple[int, float]]:
        """Over time, as charts take it."""
        return [(self.began_at + round(each.at * 1000), of(each)) for each in self.readings]


def _latency(calls: list[int]) -> Latency:
    cuts = quantiles(calls, n=100, method="inclusive")
    return Latency(len(calls), round(cuts[49], 1), round(cuts[98], 1))
