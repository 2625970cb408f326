"""The depths of the queues. The metrics and the admin pages share each count.

A count reads every state of every queue, so it runs in a thread, only on request, and rarely: however many clients ask, counting takes
at most a twentieth of the time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from msgspec import Struct

from rowq.engine.engine import Engine
from rowq.errors import QueueNotFound
from rowq.model.message import Stats
from rowq.model.queue import resolve
from rowq.store.meter import Meter

_log = logging.getLogger("rowq.server")

EVERY = 1.0
REST = 20
"""After a count it rests for this many times the count's duration, and at least EVERY seconds."""
PATIENCE = 0.4
"""Seconds that a page waits for a fresher count."""


class Counted(Struct, frozen=True):
    """The result of a count, limited to the queues of one identity."""

    stats: dict[str, Stats]
    """By queue, sorted by name."""
    age_ms: int | None
    """Since the count; None before the first has finished."""
    limits: dict[str, int]
    """The max_depth of the queues that have one."""


class Depths:
    def __init__(self, engine: Engine, meter: Meter | None = None, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._meter = meter
        self._monotonic = monotonic
        self.on_count: Callable[[list[Stats]], None] | None = None
        """Called after each count of all queues, in the counting thread."""
        self.version = 0
        """Changes whenever a count differs from the previous one."""
        self._stats: dict[str, Stats] = {}
        self._limits: dict[str, int] = {}
        self._settings_version: int | None = None
        self._counted_at = self._tried_at = float("-inf")
        self._took = 0.0
        self._is_failing = False
        self._counting: asyncio.Future[None] | None = None
        self._stale: dict[str, None] = {}
        self._rests: dict[str, float] = {}

    @property
    def age(self) -> float:
        """Seconds since the last count of all queues began; infinite without one."""
        return self._monotonic() - self._counted_at

    @property
    def has_ready(self) -> bool:
        """Whether any queue has ready messages, whose age grows."""
        return any(stats.oldest_ready_at is not None for stats in list(self._stats.values()))

    async def look(self, reaches: Callable[[str], bool] = lambda _: True) -> Counted:
        """For a page: the counts of the queues within reach, after a brief wait for fresher ones."""
        await self.freshen()
        age = self.age
        return Counted(
            {queue: stats for queue, stats in sorted(self._stats.items()) if reaches(queue)},
            None if age == float("inf") else round(age * 1000),
            self._limits,
        )

    async def freshen(self) -> None:
        """Counts all queues if the rest is over, else only those marked as stale."""
        now = self._monotonic()
        if now - self._tried_at >= max(EVERY, REST * self._took):
            await self._share(self._count_all, PATIENCE)
        elif chosen := [queue for queue in list(self._stale) if now >= self._rests.get(queue, now)]:
            await self._share(lambda: self._count_some(chosen), PATIENCE)
        elif self._tried_at > self._counted_at:
            await self._share(None, PATIENCE)

    async def refresh(self, fresh: float, patience: float) -> None:
        """Counts again unless the last count is younger than `fresh` seconds, and waits up to `patience` seconds for it."""
        if self.age >= fresh:
            await self._share(self._count_all, patience)

    def stale(self, queue: str) -> None:
        """Marks a queue that an operator has just changed: the next look counts it, if need be alone."""
        self._stale[queue] = None

    async def _share(self, count: Callable[[], None] | None, patience: float) -> None:
        """One count at a time; callers that arrive meanwhile wait for it."""
        if count is not None and (self._counting is None or self._counting.done()):
            self._counting = asyncio.ensure_future(asyncio.to_thread(self._survive, count))
        if self._counting is not None and not self._counting.done():
            await asyncio.wait((self._counting,), timeout=patience)

    def _survive(self, count: Callable[[], None]) -> None:
        try:
            count()
        except Exception:
            if not self._is_failing:
                _log.exception("the depths of the queues cannot be read; metrics and pages go without them")
            self._is_failing = True
        else:
            self._is_failing = False

    def _count_all(self) -> None:
        known = set() if self._meter is None else self._meter.labels()
        started = self._tried_at = self._monotonic()
        self._stale.clear()
        found = self._engine.insights.queues()
        self._took = self._monotonic() - started
        if self._meter is not None:
            # Another process may have deleted a queue: one that was known before the count and is missing from it is gone.
            self._meter.forget(known - {stats.queue for stats in found})
        self._read_limits()
        self._take({stats.queue: stats for stats in found})
        if self.on_count is not None:
            self.on_count(found)
        self._counted_at = started

    def _count_some(self, queues: list[str]) -> None:
        changed = dict(self._stats)
        for queue in queues:
            self._stale.pop(queue, None)
            started = self._monotonic()
            try:
                self._engine.insights.settings(queue)
                changed[queue] = self._engine.insights.stats(queue)
            except QueueNotFound:
                changed.pop(queue, None)
            ended = self._monotonic()
            self._rests[queue] = ended + REST * (ended - started)
        self._take(changed)

    def _take(self, stats: dict[str, Stats]) -> None:
        if stats != self._stats:
            self._stats, self.version = stats, self.version + 1
        self._rests = {queue: rest for queue, rest in self._rests.items() if queue in stats}

    def _read_limits(self) -> None:
        """Only if settings have changed."""
        insights = self._engine.insights
        version = insights.settings_version()
        if version != self._settings_version:
            policies = {queue: resolve(settings, insights.defaults) for queue, settings in insights.all_settings().items()}
            self._limits = {queue: policy.max_depth for queue, policy in policies.items() if policy.max_depth}
            self._settings_version = version
