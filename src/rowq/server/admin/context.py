"""What all requests to the admin pages share: sessions, counts, jobs, templates, and the background tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from rowq.server.admin.checkup import Checkup
from rowq.server.admin.files import Static
from rowq.server.admin.jobs import Jobs
from rowq.server.admin.rates import Rates
from rowq.server.admin.rendering import Templates
from rowq.server.admin.search import Searches
from rowq.server.admin.session import Sessions
from rowq.server.depths import Depths
from rowq.server.service import Service


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
