"""The doctor's findings, cached: it reads much of the database, so pages do not run it on every request."""

from __future__ import annotations

import asyncio
import logging
import time

from rowq.server.service import Service
from rowq.store.dialect import Finding

_log = logging.getLogger("rowq.server")

REST = 500
"""After a run the doctor rests for this many times the run's duration: on a large database it reads every page of the file."""


class Checkup:
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
