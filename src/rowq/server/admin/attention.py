"""What needs an operator's attention, one sentence each, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from rowq.model.message import Stats
from rowq.server.admin.history import History
from rowq.server.admin.jobs import Job
from rowq.server.admin.rendering import count, number, span
from rowq.store.dialect import Finding

ERROR_SHARE = 0.05
LEAST_FAILURES = 5
"""Fewer failures than this are not reported."""
LONG_MS = 300_000
"""How long messages may wait without a consumer before it is reported."""

_ORDER = ("failed", "expired", "pending", "processing")


class Row(Struct, frozen=True):
    """A queue on the dashboard."""

    stats: Stats
    history: History
    age_ms: int | None
    """Age of the oldest ready message."""
    limit: int | None
    """Its `max_depth`, if it has one."""

    @property
    def name(self) -> str:
        return self.stats.queue


class Need(Struct, frozen=True):
    """`colour` is that of a badge; `place` is what the link leads to: a queue, its dead letters, a job, or health."""

    colour: Literal["failed", "expired", "pending", "processing"]
    what: str
    sentence: str
    queue: str | None = None
    place: str = "queue"
    job: str = ""


def needs(rows: Iterable[Row], findings: Iterable[Finding], jobs: Iterable[Job]) -> list[Need]:
    found = [need for row in rows for need in _of_queue(row)]
    for finding in findings:
        if not finding.ok:
            advice = "" if finding.advice is None else f": {finding.advice}"
            found.append(Need("expired", "database", f"{finding.check}, {finding.detail}{advice}", place="health"))
    for job in jobs:
        so_far = number(job.done) if job.total is None else f"{number(job.done)} of {number(job.total)}"
        found.append(Need("processing", "running", f"{job.what}: {so_far} so far", job.queue, "job", job.id))
    return sorted(found, key=lambda need: _ORDER.index(need.colour))


def _of_queue(row: Row) -> Iterator[Need]:
    stats, history = row.stats, row.history
    waiting = stats.ready + stats.scheduled + stats.blocked
    ended, failed = history.failures
    if stats.dead and (died := history.died):
        yield Need("failed", "dead letters", f"{count(died, 'message')} became dead letters in the last hour", row.name, "dead")
    if failed >= LEAST_FAILURES and failed / ended > ERROR_SHARE:
        share = f"{failed / ended:.0%} of deliveries failed in the last five minutes: {number(failed)} of {number(ended)}"
        yield Need("failed", "errors", share, row.name)
    if row.limit is not None and stats.depth >= row.limit:
        yield Need("failed", "full", f"it is full: {number(stats.depth)} of {count(row.limit, 'message')}", row.name)
    if late := history.late:
        sentence = f"{count(late, 'lease')} ran out in the last hour: a consumer has died, or needs more time"
        yield Need("expired", "leases", sentence, row.name, "consumers")
    if stats.paused:
        if waiting:
            yield Need("pending", "paused", f"it is paused, and {count(waiting, 'message')} wait{'s' if waiting == 1 else ''}", row.name)
    elif row.age_ms is not None and row.age_ms >= LONG_MS and not stats.leased and not ended:
        sentence = f"no consumer receives its messages: the oldest has been waiting for {span(row.age_ms)}"
        yield Need("pending", "waiting", sentence, row.name)
