"""How full the queues are, counted for all who want to know: the metrics and the pages share each count.

A count reads every place of every queue, so it is made in a thread, only when somebody asks, and seldom: however many look, the
database is busy with it for a twentieth of the time at most.
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
"""After a count it rests for so many times what that took, and for EVERY seconds at least."""
PATIENCE = 0.4
"""Seconds that a page waits for a fresher count."""


class Counted(Struct, frozen=True):
    """What a count has found, as one identity may see it."""

    stats: dict[str, Stats]
    """By queue, in the order of their names."""
    age_ms: int | None
    """How long ago; None before the first count has come to an end."""
    limits: dict[str, int]
    """The max_depth of the queues that have one."""


class Depths:
    def __init__(self, engine: Engine, meter: Meter | None = None, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._meter = meter
        self._monotonic = monotonic
        self.on_count: Callable[[list[Stats]], None] | None = None
        """Told of each count of all queues, in the thread that made it."""
        self.version = 0
        """Another one whenever a count has found something else than the one before."""
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
        """Whether anything grows older."""
        return any(stats.oldest_ready_at is not None for stats in list(self._stats.values()))

    async def look(self, reaches: Callable[[str], bool] = lambda _: True) -> Counted:
        """For a page: the queues that somebody reaches, as fresh as can be had in a moment."""
        await self.freshen()
        age = self.age
        return Counted(
            {queue: stats for queue, stats in sorted(self._stats.items()) if reaches(queue)},
            None if age == float("inf") else round(age * 1000),
            self._limits,
        )

    async def freshen(self) -> None:
        """Counts all queues again once it has rested, and before that those where somebody has done something."""
        now = self._monotonic()
        if now - self._tried_at >= max(EVERY, REST * self._took):
            await self._share(self._count_all, PATIENCE)
        elif chosen := [queue for queue in list(self._stale) if now >= self._rests.get(queue, now)]:
            await self._share(lambda: self._count_some(chosen), PATIENCE)
        elif self._tried_at > self._counted_at:
            await self._share(None, PATIENCE)

    async def refresh(self, fresh: float, patience: float) -> None:
        """Counts again unless that was done in the last `fresh` seconds, and waits so long for it."""
        if self.age >= fresh:
            await self._share(self._count_all, patience)

    def stale(self, queue: str) -> None:
        """Somebody has just changed something there, and wants to see it: it is counted with the next look, if need be alone."""
        self._stale[queue] = None

    async def _share(self, count: Callable[[], None] | None, patience: float) -> None:
        """One count at a time; those who come meanwhile wait for that."""
        if count is not None and (self._counting is None or self._counting.done()):
            self._counting = asyncio.ensure_future(asyncio.to_thread(self._survive, count))
        if self._counting is not None and not self._counting.done():
            await asyncio.wait((self._counting,), timeout=patience)

    def _survive(self, count: Callable[[], None]) -> None:
        try:
            count()
        except Exception:
            if not self._is_failing:
                _log.exception("the depths of the queues cannot be read; metrics and pages are told without them")
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
            # Somebody else may have deleted a queue. One that was counted before the look began, and was not seen, is gone.
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
        """Only when settings have changed."""
        insights = self._engine.insights
        version = insights.settings_version()
        if version != self._settings_version:
            policies = {queue: resolve(settings, insights.defaults) for queue, settings in insights.all_settings().items()}
            self._limits = {queue: policy.max_depth for queue, policy in policies.items() if policy.max_depth}
            self._settings_version = version
