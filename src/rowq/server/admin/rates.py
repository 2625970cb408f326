"""Rates: messages sent, done and failed in the last hour, by queue, in slots of ten seconds.

They come from the audit, so they include processes that do not go through this server. For queues without an audit they come from the
server's own meter; likewise on a busy server that has the database to itself while no page is open, because counting a hundred thousand
audit lines every few seconds would cost a twentieth of its throughput. A rate is a lower bound.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from math import ceil, log10
from typing import NamedTuple

from msgspec import Struct

from rowq.model.queue import resolve
from rowq.server.service import Service
from rowq.store.meter import OTHER

_log = logging.getLogger("rowq.server")

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


EVERY = 5.0
REST = 20
"""After a look it rests for this many times the look's duration, and at least EVERY seconds."""
MOST_QUEUES = 1_000
MOST_CONSUMERS = 5_000
MOST_LINES = 1_000_000
"""Audit lines in one look; older ones are left out."""
CHEAP = 20_000
"""Up to this many audit lines are counted even if no page is open: it takes about 20 ms."""
_NEARLY_ALL = 0.95
CONSUMER_SLOTS = 30
_HOUR_MS = 3_600_000

_KINDS_OF: dict[str, tuple[int, ...]] = {
    "enqueued": (IN,),
    "acked": (OUT,),
    "nacked": (FAILED,),
    "rejected": (FAILED,),
    "expired": (FAILED,),
    "lease_expired": (FAILED, LATE),
    "dead": (DEAD,),
}
"""By event. `dead` is not a further failure: the nack, reject, lost lease or expiry before it has been counted."""


class _Tally(NamedTuple):
    """`times` events of one kind; `who` is the consumer, if known."""

    queue: str
    event: str
    who: str | None
    slot: int
    times: int


_Totals = dict[str, dict[str, int]]


class Rates:
    def __init__(self, service: Service, is_watched: Callable[[], bool] = lambda: True) -> None:
        self._service = service
        self._is_watched = is_watched
        self.version = 0
        """Changes whenever the rates of the last minutes may have changed."""
        self._now = 0
        self._queues: dict[str, list[array[int]]] = {}
        self._all = _rings()
        self._acks: dict[int, Counter[tuple[str, str]]] = {}
        self._after: int | None = None
        self._end = self._ended_at = 0
        self._settings_version: int | None = None
        self._unaudited: frozenset[str] = frozenset()
        self._counted: _Totals | None = None
        self._ours: list[_Tally] = []

    async def follow(self) -> None:
        """Runs until it is cancelled, and retries when the database does not answer."""
        loop = asyncio.get_running_loop()
        is_failing = False
        while True:
            started = loop.time()
            try:
                await self.look()
                is_failing = False
            except Exception:
                if not is_failing:
                    _log.exception("the audit cannot be read, so the pages show no rates until it can")
                is_failing = True
            await asyncio.sleep(max(EVERY, REST * (loop.time() - started)))

    async def look(self) -> None:
        """Adds what has happened since the last look. It reads in a thread and writes on the event loop."""
        self._take(*await asyncio.to_thread(self._read))

    def of(self, queue: str) -> History:
        return self._history(self._queues.get(queue))

    def total(self, queues: Iterable[str] | None = None) -> History:
        """Of all queues, or of some."""
        if queues is None:
            return self._history(self._all)
        found = [self._queues[queue] for queue in queues if queue in self._queues]
        return self._history([array("I", map(sum, zip(*rings, strict=True))) for rings in zip(*found, strict=True)] if found else None)

    def acks_per_minute(self) -> Mapping[tuple[str, str], float]:
        """By (queue, consumer), in the last five minutes; only those that acked anything."""
        sums: Counter[tuple[str, str]] = Counter()
        for acks in self._acks.values():
            sums.update(acks)
        minutes = CONSUMER_SLOTS * SLOT_MS / 60_000
        return {who: count / minutes for who, count in sums.items()}

    def _history(self, rings: list[array[int]] | None) -> History:
        if rings is None:
            return History.empty()
        cut = (self._now + 1) % SLOTS
        return History([ring[cut:] + ring[:cut] for ring in rings])

    def _read(self) -> tuple[list[_Tally], int]:
        """The lines up to where the audit ended at the previous look, and the time of that look. Newer lines may have gaps: on a database
        server, a transaction that is still open may have drawn a lower number."""
        engine = self._service.engine
        insights, now, end = engine.insights, engine.clock.now(), engine.insights.audit_end()
        ours = self._read_meter(now)
        if self._after is None or end < self._after:  # the audit was emptied, or the database restored
            self._after, self._end, self._ended_at, self._ours = insights.audit_start(now - _HOUR_MS), end, now, []
        after, upto = max(self._after, self._end - MOST_LINES), self._end
        if self._is_known(upto - after):
            lines = self._ours
        else:
            lines = [_Tally(*line) for line in insights.tally_audit(after, upto)] if upto > after else []
            lines += [line for line in self._ours if line.queue in self._unaudited]
        seen_at = self._ended_at
        self._after, self._end, self._ended_at, self._ours = max(self._after, upto), end, now, ours
        return lines, seen_at

    def _is_known(self, lines: int) -> bool:
        """Whether the meter suffices: there are many lines, nearly all passed through this server, and no page shows who did it."""
        if lines <= CHEAP or self._is_watched():
            return False
        return sum(line.times for line in self._ours if line.queue not in self._unaudited) >= lines * _NEARLY_ALL

    def _read_meter(self, now: int) -> list[_Tally]:
        """What this server has counted since the last look."""
        engine = self._service.engine
        insights, meter = engine.insights, engine.meter
        version = insights.settings_version()
        if version != self._settings_version:
            resolved = {queue: resolve(settings, insights.defaults) for queue, settings in insights.all_settings().items()}
            self._unaudited, self._settings_version = frozenset(queue for queue, policy in resolved.items() if not policy.audit), version
        if meter is None:
            return []
        known, self._counted = self._counted, {queue: dict(found.counts) for queue, found in meter.read_queues().items() if queue != OTHER}
        if known is None:
            return []
        slot = now - now % SLOT_MS
        return [
            _Tally(queue, event, None, slot, count - before)
            for queue, counts in self._counted.items()
            for event, count in counts.items()
            if ":" not in event and count > (before := known.get(queue, {}).get(event, 0))
        ]

    def _take(self, lines: list[_Tally], seen_at: int) -> None:
        """The hour ends at the last complete look; otherwise every chart would end with a drop."""
        self._advance(seen_at // SLOT_MS)
        for line in lines:
            number = min(line.slot // SLOT_MS, self._now)  # the meter is ahead, and another process's clock may be
            kinds = _KINDS_OF.get(line.event)
            if kinds is None or number <= self._now - SLOTS:
                continue
            for rings in (self._all, self._rings_of(line.queue)):
                for kind in kinds:
                    rings[kind][number % SLOTS] += line.times
            if line.event == "acked" and line.who is not None:
                self._note_ack((line.queue, line.who), number, line.times)
        if lines or self._is_calming():
            self.version += 1

    def _is_calming(self) -> bool:
        """Whether a rate of the last minutes is still falling to zero."""
        newest = range(self._now - CONSUMER_SLOTS, self._now + 1)
        return any(ring[number % SLOTS] for ring in self._all for number in newest)

    def _advance(self, number: int) -> None:
        """Moves the window forward and clears the slots that enter it."""
        fresh = {slot % SLOTS for slot in range(max(self._now + 1, number - SLOTS + 1), number + 1)}
        for ring in chain(self._all, *self._queues.values()) if fresh else ():
            for place in fresh:
                ring[place] = 0
        self._now = max(self._now, number)
        self._acks = {slot: acks for slot, acks in self._acks.items() if slot > self._now - CONSUMER_SLOTS}

    def _rings_of(self, queue: str) -> list[array[int]]:
        """For a queue beyond MOST_QUEUES the rings are discarded."""
        rings = self._queues.get(queue)
        if rings is None:
            if len(self._queues) >= MOST_QUEUES:
                self._queues = {queue: rings for queue, rings in self._queues.items() if any(map(any, rings))}
            if len(self._queues) >= MOST_QUEUES:
                return _rings()
            rings = self._queues[queue] = _rings()
        return rings

    def _note_ack(self, who: tuple[str, str], number: int, times: int) -> None:
        if number <= self._now - CONSUMER_SLOTS:
            return
        acks = self._acks.setdefault(number, Counter())
        if who in acks or len(acks) < MOST_CONSUMERS:
            acks[who] += times


def _rings() -> list[array[int]]:
    return History.empty().counts
