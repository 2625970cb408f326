"""Jobs: long operations that run in the background, with a page that shows their progress."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Literal

from msgspec import Struct

from rowq.engine.bulk import Progress
from rowq.errors import Forbidden, NotFound, RowqError, ServerUnavailable
from rowq.server.auth.authentication import Identity
from rowq.server.depths import Depths
from rowq.server.http.errors import HttpError
from rowq.server.service import Service
from rowq.wire import Count

_log = logging.getLogger("rowq.server")

KEPT = 100
"""Ended jobs kept; the oldest are dropped first."""
MOST_RUNNING = 20
PATIENCE = 1.0
"""Seconds that a request waits for its job before it redirects to the progress page."""
_GRACE = 0.5
"""Seconds for a cancelled job to finish its current batch, so that its count is exact."""

Task = Callable[[Progress], Awaitable[Count]]


class _Cancelled(Exception):
    """The operator cancelled the job."""


class Job(Struct, eq=False, kw_only=True):
    queue: str
    what: str
    """`Redrive all dead letters`."""
    done_word: str
    """`redriven`."""
    noun: str
    back: str
    """The page it was started from."""
    total: int | None
    """How many there were at the start, if known."""
    by: str | None
    started_at: int
    id: str
    done: int = 0
    state: Literal["running", "done", "cancelled", "failed"] = "running"
    error: Exception | None = None
    ended_at: int | None = None
    is_unwanted: bool = False
    """It was cancelled, and ends after its current batch."""
    task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    @property
    def summary(self) -> str:
        """`3 of 5 dead letters were redriven`: another client may have taken the other two."""
        of_how_many = "" if self.total is None or self.total <= self.done else f" of {self.total:,}"
        is_one = (self.total if of_how_many else self.done) == 1
        words = f"{self.done:,}{of_how_many} {self.noun}{'' if is_one else 's'} {'was' if self.done == 1 else 'were'} {self.done_word}."
        match self.state:
            case "failed":
                why = self.error if isinstance(self.error, RowqError) else "see the server's log"
                return f"{words} Then it failed: {why}"
            case "cancelled":
                return f"Cancelled: {words}"
        return words


class Jobs:
    def __init__(self, service: Service, depths: Depths) -> None:
        self._service = service
        self._depths = depths
        self._jobs: dict[str, Job] = {}
        self._is_over = False

    async def start(
        self,
        identity: Identity,
        task: Task,
        *,
        queue: str,
        what: str,
        done_word: str,
        back: str,
        total: int | None,
        noun: str = "dead letter",
    ) -> Job:
        """Starts the job and waits briefly: most finish in that time."""
        if len(self.running()) >= MOST_RUNNING:
            sentence = f"{MOST_RUNNING} jobs are running already: wait for one to end, or cancel one"
            raise HttpError(HTTPStatus.TOO_MANY_REQUESTS, "too_many_requests", sentence)
        if self._is_over:
            raise ServerUnavailable("the server is stopping")
        job = Job(
            queue=queue,
            what=what,
            done_word=done_word,
            noun=noun,
            back=back,
            total=total,
            by=identity.name,
            started_at=self._service.engine.clock.now(),
            id=secrets.token_urlsafe(12),
        )
        self._jobs[job.id] = job
        self._forget()
        job.task = asyncio.create_task(self._run(job, task, identity))
        await asyncio.wait((job.task,), timeout=PATIENCE)
        return job

    def running(self, identity: Identity | None = None) -> list[Job]:
        """Those that the identity may see; without an identity, all."""
        return [job for job in self._jobs.values() if job.is_running and (identity is None or identity.reaches(job.queue))]

    def find(self, identity: Identity, id: str) -> Job:
        job = self._jobs.get(id)
        if job is None or not identity.reaches(job.queue):
            raise NotFound("there is no such job: it ended a while ago, or the server has restarted since")
        return job

    async def cancel(self, job: Job) -> None:
        job.is_unwanted = True
        if job.task is not None:
            await asyncio.wait((job.task,), timeout=_GRACE)
            job.task.cancel()
            await asyncio.wait((job.task,))

    async def end(self) -> None:
        """The server stops: completed batches stay done."""
        self._is_over = True
        await asyncio.gather(*(self.cancel(job) for job in self.running()))

    async def _run(self, job: Job, task: Task, identity: Identity) -> None:
        def progress(count: int) -> None:
            job.done = count
            if job.is_unwanted:
                raise _Cancelled
            if not self._service.authenticator.holds(identity):
                raise Forbidden("the key that started it was revoked")

        try:
            job.done = (await task(progress)).count
            job.state = "done"
        except (_Cancelled, asyncio.CancelledError):
            job.state = "cancelled"
        except Exception as error:
            job.state, job.error = "failed", error
            if not isinstance(error, RowqError):
                _log.exception("a job failed: %s of %s", job.what, job.queue)
        finally:
            job.ended_at = self._service.engine.clock.now()
            self._depths.stale(job.queue)

    def _forget(self) -> None:
        ended = [id for id, job in self._jobs.items() if not job.is_running]
        for id in ended[: max(0, len(ended) - KEPT)]:
            del self._jobs[id]
