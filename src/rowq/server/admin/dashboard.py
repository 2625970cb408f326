"""The dashboard: every queue at a glance, and on top what needs attention, the worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct
from starlette.responses import Response

from rowq.model.message import Stats
from rowq.server.admin.jobs import Job
from rowq.server.admin.rates import History
from rowq.server.admin.rendering import count, number, span
from rowq.server.admin.request import AdminRequest, one_of, paged
from rowq.server.depths import Counted
from rowq.store.dialect import Finding

MOST_NEEDS = 12
ERROR_SHARE = 0.05
LEAST_FAILURES = 5
"""Fewer failures than this are not reported."""
LONG_MS = 300_000
"""How long messages may wait without a consumer before it is reported."""

_ORDER = ("failed", "expired", "pending", "processing")
_TOTALS = ("ready", "scheduled", "blocked", "leased", "dead")
_BY: dict[str, Callable[[Row], Any]] = {
    "name": lambda row: 0,
    "ready": lambda row: -row.stats.ready,
    "scheduled": lambda row: -row.stats.scheduled,
    "blocked": lambda row: -row.stats.blocked,
    "leased": lambda row: -row.stats.leased,
    "dead": lambda row: -row.stats.dead,
    "oldest": lambda row: -(row.age_ms or -1),
    "in": lambda row: -row.history.came,
    "out": lambda row: -row.history.done,
    "errors": lambda row: -(row.history.error_share or 0.0),
}
"""The sort orders: names ascending, numbers descending."""


async def show_dashboard(request: AdminRequest) -> Response:
    """`sort` and `name` select and order the rows, `page` which hundred of them."""
    sort = one_of(request.asked("sort", "name"), tuple(_BY), "column to sort by")
    counted = await request.context.depths.look(request.identity.reaches)
    rows = _rows(request, counted)
    wanted = request.asked("name").strip()
    chosen = sorted((row for row in rows if wanted.lower() in row.name.lower()), key=_BY[sort])
    findings = (await request.context.checkup.look() or []) if request.identity.sees_all else []
    found = needs(rows, findings, request.context.jobs.running(request.identity))
    return request.show(
        "dashboard.html",
        needs=found[:MOST_NEEDS],
        more_needs=max(0, len(found) - MOST_NEEDS),
        totals={state: sum(getattr(row.stats, state) for row in rows) for state in _TOTALS},
        history=request.context.rates.total(None if request.identity.sees_all else counted.stats),
        age_ms=counted.age_ms,
        is_empty=not rows,
        sort=sort,
        wanted=wanted,
        **paged(request, chosen),
    )


def _rows(request: AdminRequest, counted: Counted) -> list[Row]:
    now, rates = request.service.engine.clock.now(), request.context.rates
    return [Row(stats, rates.of(queue), _age(stats, now), counted.limits.get(queue)) for queue, stats in counted.stats.items()]


def _age(stats: Stats, now: int) -> int | None:
    return None if stats.oldest_ready_at is None else max(0, now - stats.oldest_ready_at)


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
