"""What all requests to the admin pages share: sessions, counts, jobs, templates, findings, and the background tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from rowq.server.admin.jobs import Jobs
from rowq.server.admin.rates import Rates
from rowq.server.admin.rendering import Static, Templates
from rowq.server.admin.search import Searches
from rowq.server.admin.session import Sessions
from rowq.server.depths import Depths
from rowq.server.service import Service
from rowq.store.dialect import Finding

_log = logging.getLogger("rowq.server")

REST = 500
"""After a run the doctor rests for this many times the run's duration: on a large database it reads every page of the file."""


class AdminContext:
    def __init__(self, service: Service, menu: Sequence[object], *, database: str, workers: int, api: str) -> None:
        """`menu`: the pages listed in it. `database`: its URL without the password. `workers`: how many processes serve it.

        `api`: where the API is.
        """
        self.service = service
        self.menu = menu
        self.database = database or service.engine.dialect.name
        self.workers = workers
        self.api = api
        self.began = time.monotonic()
        self.sessions = Sessions(service)
        self.depths = Depths(service.engine) if service.metrics is None else service.metrics.depths
        self.watching: set[object] = set()
        """The event streams of open pages."""
        self.rates = Rates(service, lambda: bool(self.watching))
        self.checkup = Checkup(service)
        self.jobs = Jobs(service, self.depths)
        self.searches = Searches()
        self.static = Static()
        self.templates = Templates(self.static)

    @asynccontextmanager
    async def live(self) -> AsyncIterator[None]:
        """The background tasks, for as long as the server runs."""
        following = asyncio.create_task(self.rates.follow())
        try:
            yield
        finally:
            following.cancel()
            await asyncio.wait((following,))
            self.searches.end()
            await self.jobs.end()


class Checkup:
    """The doctor's findings, cached: it reads much of the database, so pages do not run it on every request."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._findings: list[Finding] | None = None
        self._examined_at = float("-inf")
        self._took = 0.0
        self._examining: asyncio.Future[None] | None = None

    @property
    def age_ms(self) -> int | None:
        """Since the last run; None before the first."""
        return None if self._findings is None else round((time.monotonic() - self._examined_at) * 1000)

    async def look(self, fresh: float = 600.0, patience: float = 0.1, rest: int = REST) -> list[Finding] | None:
        """The findings of the last `fresh` seconds, or older ones where a run takes long; None before the first run has finished."""
        is_due = time.monotonic() - self._examined_at >= max(fresh, rest * self._took)
        if is_due and (self._examining is None or self._examining.done()):
            self._examining = asyncio.ensure_future(self._examine())
        if self._examining is not None and not self._examining.done():
            await asyncio.wait((self._examining,), timeout=patience)
        return self._findings

    async def _examine(self) -> None:
        started = time.monotonic()
        try:
            self._findings = await self._service.look(self._service.engine.examine)
        except Exception as error:
            self._findings = [Finding("database", False, f"the doctor failed: {error}", "see the server's log")]
            _log.warning("the doctor failed: %s", error)
        self._took, self._examined_at = time.monotonic() - started, time.monotonic()
