"""The last hour of one queue or of all: counts in slots of ten seconds, and the lines of their chart."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import ceil, log10

from msgspec import Struct

SLOT_MS = 10_000
SLOTS = 361
"""An hour, plus the current slot."""
IN, OUT, FAILED, DEAD, LATE = range(5)
KINDS = 5

_PER_MINUTE = 60_000 // SLOT_MS
_MINUTES_OF_ERRORS = 5


class Line(Struct, frozen=True):
    """One line of a chart: its points, and its text for screen readers."""

    name: str
    label: str
    path: str
    count: int
    """Total of the hour."""


class History(Struct, frozen=True):
    counts: list[array[int]]
    """By kind, the oldest slot first."""

    @staticmethod
    def empty() -> History:
        return History([array("I", [0]) * SLOTS for _ in range(KINDS)])

    @property
    def came(self) -> float:
        """Messages per second, in the last minute."""
        return self._rate(IN)

    @property
    def done(self) -> float:
        return self._rate(OUT)

    @property
    def error_share(self) -> float | None:
        """Share of failures among the deliveries that ended in the last five minutes; None if none ended."""
        return self.failures[1] / self.failures[0] if self.failures[0] else None

    @property
    def failures(self) -> tuple[int, int]:
        """How many deliveries ended in the last five minutes, and how many of those failed."""
        newest = _MINUTES_OF_ERRORS * _PER_MINUTE + 1
        failed = sum(self.counts[FAILED][-newest:])
        return failed + sum(self.counts[OUT][-newest:]), failed

    @property
    def died(self) -> int:
        """Dead letters of the last hour."""
        return sum(self.counts[DEAD])

    @property
    def late(self) -> int:
        """Leases that ran out in the last hour."""
        return sum(self.counts[LATE])

    @property
    def is_quiet(self) -> bool:
        return not any(map(any, self.counts))

    def top(self, slots: int = 3) -> float:
        """The end of the axis: a round number of messages per second, at or above every point."""
        highest = max(max(_pooled(self.counts[kind], slots), default=0) for kind in (IN, OUT, FAILED)) * 1000 / (slots * SLOT_MS)
        return _round_up(highest)

    def lines(self, width: int, height: int, slots: int = 3) -> list[Line]:
        """Sent, done and failed, with one point for every `slots` slots."""
        top = self.top(slots) * slots * SLOT_MS / 1000
        return [
            Line(name, label, _path(_pooled(self.counts[kind], slots), top, width, height), sum(self.counts[kind]))
            for kind, name, label in ((IN, "came", "sent"), (OUT, "done", "done"), (FAILED, "failed", "failed"))
        ]

    def _rate(self, kind: int) -> float:
        return sum(self.counts[kind][-_PER_MINUTE - 1 :]) / 60


def _pooled(values: Sequence[int], slots: int) -> list[int]:
    """Leaves out the current slot: incomplete, it would look like a drop."""
    whole = values[:-1]
    return [sum(whole[start : start + slots]) for start in range(0, len(whole), slots)]


def _path(values: list[int], top: float, width: int, height: int) -> str:
    """An SVG path. A run of equal values becomes one segment."""
    step = width / max(1, len(values) - 1)
    heights = [height if not top else height - value / top * height for value in values]
    points = [
        f"{round(place * step, 1):g},{round(y, 1):g}"
        for place, y in enumerate(heights)
        if not 0 < place < len(heights) - 1 or not heights[place - 1] == y == heights[place + 1]
    ]
    return "M" + " L".join(points)


def _round_up(value: float) -> float:
    """To 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    unit: float = 10.0 ** (ceil(log10(value)) - 1)
    return next(unit * step for step in (1, 2, 5, 10) if unit * step >= value * 0.999999)
