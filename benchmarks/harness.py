"""Measuring fairly: contestants take short turns, side by side, and what counts is the median over the rounds.

Neighbours on the machine move absolute figures by a factor of two. Turns are therefore short, so that whatever happens meanwhile
happens to everybody; ratios are taken within a round; and a bar is held against the median of those ratios.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

from benchmarks.scale import Scale
from benchmarks.scratch import Scratch


class Gauge(NamedTuple):
    """What is read off a contestant, and in which unit."""

    what: str
    unit: Literal["/s", "µs", "MB", "%", "x"]


class Timing(NamedTuple):
    seconds: float
    messages: int

    def __add__(self, other: object) -> Timing:
        if not isinstance(other, Timing):
            return NotImplemented
        return Timing(self.seconds + other.seconds, self.messages + other.messages)

    def reading(self, gauge: Gauge) -> float:
        return self.messages / self.seconds if gauge.unit == "/s" else self.seconds / self.messages * 1e6


_NOTHING = Timing(0, 0)

Turn = Mapping[Gauge, Timing]
Turns = Generator[Turn, None, None]
Contestant = Callable[[Path], Turns]
"""Given an empty folder it sets itself up, and then takes a turn whenever it is asked for the next."""


class Bar(NamedTuple):
    """What must hold."""

    relation: Literal["at least", "at most"]
    limit: float

    def is_met_by(self, value: float) -> bool:
        return value >= self.limit if self.relation == "at least" else value <= self.limit


@dataclass(frozen=True)
class Series:
    """One gauge of one contestant, a value a round."""

    contestant: str
    gauge: Gauge
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Claim:
    """A comparison, a value a round, and the bar that it must meet; without a bar it is only told.

    A bar that is meant for more than was done here is shown, and is neither met nor missed.
    """

    what: str
    unit: Literal["x", "%", "MB"]
    values: tuple[float, ...]
    bar: Bar | None = None
    is_measured: bool = True

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def holds(self) -> bool | None:
        return None if self.bar is None or not self.is_measured else self.bar.is_met_by(self.median)


@dataclass(frozen=True)
class Chapter:
    """All that one benchmark found."""

    name: str
    title: str
    series: list[Series]
    claims: list[Claim]
    notes: list[str] = field(default_factory=list)


class Progress:
    """Told what is being done; this one tells nobody."""

    def expect(self, steps: int) -> None:
        """So many more steps are to come."""

    def step(self, text: str) -> None:
        """The next one begins."""


@dataclass(frozen=True)
class Bench:
    """What a benchmark is given: how much to do, where, and whom to tell."""

    scale: Scale
    rounds: int
    scratch: Scratch
    progress: Progress = field(default_factory=Progress)


class Scores:
    """The readings of all contestants, round by round."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, Gauge], list[float]] = {}

    def add(self, contestant: str, readings: Mapping[Gauge, float]) -> None:
        for gauge, value in readings.items():
            self._values.setdefault((contestant, gauge), []).append(value)

    def of(self, contestant: str, gauge: Gauge) -> tuple[float, ...]:
        return tuple(self._values[contestant, gauge])

    def ratio(self, gauge: Gauge, contestant: str, to: str) -> tuple[float, ...]:
        """Round by round, how many times the other's reading the contestant's is."""
        return tuple(own / other for own, other in zip(self.of(contestant, gauge), self.of(to, gauge), strict=True))

    def percent(self, gauge: Gauge, contestant: str, of: str) -> tuple[float, ...]:
        return tuple(100 * ratio for ratio in self.ratio(gauge, contestant, of))

    def series(self) -> list[Series]:
        return [Series(contestant, gauge, tuple(values)) for (contestant, gauge), values in self._values.items()]


def interleave(bench: Bench, contestants: Mapping[str, Contestant]) -> Scores:
    """A round: everybody begins anew, then takes turn after turn until nobody has one left."""
    scores = Scores()
    bench.progress.expect(bench.rounds)
    for number in range(bench.rounds):
        bench.progress.step(f"round {number + 1} of {bench.rounds}")
        gc.collect()
        for name, sums in _round(bench, contestants).items():
            scores.add(name, {gauge: timing.reading(gauge) for gauge, timing in sums.items()})
    return scores


def _round(bench: Bench, contestants: Mapping[str, Contestant]) -> dict[str, dict[Gauge, Timing]]:
    sums: dict[str, dict[Gauge, Timing]] = {name: {} for name in contestants}
    with ExitStack() as stack:
        running: dict[str, Turns] = {}
        for name, contestant in contestants.items():
            room = stack.enter_context(bench.scratch.room())
            running[name] = stack.enter_context(closing(contestant(room)))
        turn = 0
        while running:
            for name in _rotated(list(running), turn):
                taken = next(running[name], None)
                if taken is None:
                    del running[name]
                    continue
                for gauge, timing in taken.items():
                    sums[name][gauge] = sums[name].get(gauge, _NOTHING) + timing
            turn += 1
    return sums


def _rotated(names: list[str], by: int) -> Iterator[str]:
    """Who was first is last the next time."""
    start = by % len(names)
    yield from names[start:]
    yield from names[:start]
