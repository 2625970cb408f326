"""What must hold of a soak, bar by bar, and what was found.

Memory: the medians of the first and the last fifth of the second half, and a slope through all of it, each under 5 %. The first half is for
warming up: caches fill, Python's arenas and PostgreSQL's catalogue caches find their size. A median does not see a moment's peak, and the
slope (Theil and Sen's: the median over all pairs) does not depend on which moments were compared. A gauge that read nothing proves nothing:
then the bar is missed.

Files: what is kept for seconds has been kept for that long since the second fifth, so from then on new rows must go where old ones were.
The most of the last fifth may be a tenth more than the most of the second: removal comes in waves, and a look may miss the top of one.

Latency: the median and the 99th percentile of the last million, of those of the first, may be 1.5 times as much. The first million runs on
an empty database and the last on a full one, while maintenance removes as much as arrives; what grows with the messages behind it would be
tens of times as much. A neighbour on the machine can cost half as much again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from statistics import median

import msgspec

from trust.soak.record import Latency, Reading, Record

GROWTH = 5.0
"""Percent."""
FILES = 1.1
LATENCY = 1.5
VERBS = ("send", "receive", "ack")
LEAST = 1_000_000
"""Messages from which on growth and latency say something: a shorter run is over before everything is warm."""
_FEW_READINGS = 20
_SLACK = 16 << 20
"""Bytes that a file may grow by in any case: one segment of PostgreSQL's log, two checkpoints of SQLite's."""
_POINTS = 120
"""Through which a slope is drawn: pairs of all would be a million."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """`is_measured`: whether the run was long enough to tell; if not, it is told and neither met nor missed."""

    what: str
    found: str
    limit: str
    holds: bool
    is_measured: bool = True

    @property
    def is_missed(self) -> bool:
        return self.is_measured and not self.holds


def judge(record: Record) -> list[Bar]:
    is_long = record.plan.messages >= LEAST and len(record.between(0.5, 1)) >= _FEW_READINGS
    growth = [*_memory(record), *_files(record), *_latencies(record)] if record.readings else []
    return [*_accounts(record), *(msgspec.structs.replace(bar, is_measured=is_long) for bar in growth)]


def _accounts(record: Record) -> Iterator[Bar]:
    ended, lost = record.acked.plus(record.dead), record.sent.count - record.acked.count - record.dead.count
    found = f"{record.sent.count:,} = {record.acked.count:,} + {record.dead.count:,}"
    if record.sent != ended:
        found += f": {abs(lost):,} {'lost' if lost > 0 else 'too many'}" if lost else ", but not the same ones"
    is_whole = record.sent.count == record.plan.messages > 0
    yield Bar(what="sent = acked + dead, message by message", found=found, limit="the same", holds=is_whole and record.sent == ended)
    errors = ", ".join(f"{count:,} {code}" for code, count in sorted(record.errors.items()))
    yield Bar(what="errors", found=errors or "none", limit="none", holds=not errors)
    left = ", ".join(f"{count:,} in {table}" for table, count in sorted(record.left.items()))
    yield Bar(what="rows left when nothing is kept any more", found=left or "none", limit="none", holds=not left)


def _memory(record: Record) -> Iterator[Bar]:
    kinds: dict[str, Callable[[Reading], int]] = {"server": lambda each: each.server}
    if record.database != "sqlite":  # which has no processes of its own
        kinds["backends"] = lambda each: each.backends
    for name, of in kinds.items():
        before, after = (_median(of, record.between(*span)) for span in ((0.5, 0.6), (0.9, 1.0)))
        yield _grown(f"memory of the {name}: last tenth of the messages, to the sixth", before, after)
        begin, end = _line([(each.done, of(each)) for each in record.between(0.5, 1)])
        yield _grown(f"memory of the {name}: the slope of the second half", begin, end)


def _grown(what: str, before: float, after: float) -> Bar:
    percent = 100 * (after / before - 1) if before else 0.0
    found = f"{before / 1e6:.1f} → {after / 1e6:.1f} MB, {percent:+.1f} %"
    return Bar(what=what, found=found, limit=f"under {GROWTH:g} %", holds=before > 0 < after and percent < GROWTH)


def _files(record: Record) -> Iterator[Bar]:
    for name, of in (("database", lambda each: each.file), ("log", lambda each: each.log)):
        before, after = (max(map(of, record.between(*span)), default=0) for span in ((0.2, 0.4), (0.8, 1.0)))
        found = f"{before / 1e6:.0f} → {after / 1e6:.0f} MB"
        holds = bool(before) and after <= max(before * FILES, before + _SLACK)
        yield Bar(what=f"{name}: the most of the last fifth, to the second", found=found, limit=f"{FILES:g} x", holds=holds)


def _latencies(record: Record) -> Iterator[Bar]:
    told: list[tuple[str, Callable[[Latency], float]]] = [("p50", lambda each: each.p50), ("p99", lambda each: each.p99)]
    first, last = record.latencies[0], record.latencies[-1]
    for verb in VERBS:
        for name, of in told:
            if verb not in first or verb not in last:
                yield Bar(what=f"{name} of {verb}", found="no calls", limit=f"{LATENCY:g} x", holds=False)
                continue
            before, after = of(first[verb]) / 1000, of(last[verb]) / 1000
            found = f"{before:.1f} → {after:.1f} ms, {after / before:.2f} x"
            yield Bar(
                what=f"{name} of {verb}: last part, to the first", found=found, limit=f"{LATENCY:g} x", holds=after <= LATENCY * before
            )


def _median(of: Callable[[Reading], int], readings: Sequence[Reading]) -> float:
    return median(map(of, readings)) if readings else 0.0


def _line(points: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Where the straight line begins and ends that lies in the middle of the points."""
    chosen = points[:: max(1, len(points) // _POINTS)]
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(chosen, 2) if x1 != x2]
    if not slopes:
        return (0.0, 0.0)
    slope = median(slopes)
    base = median(y - slope * x for x, y in chosen)
    return base + slope * chosen[0][0], base + slope * chosen[-1][0]
