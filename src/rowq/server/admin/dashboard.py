"""The dashboard: every queue at a glance, what needs attention on top."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from rowq.model.message import Stats
from rowq.server.admin.attention import Row, needs
from rowq.server.admin.paging import paged
from rowq.server.admin.request import AdminRequest, one_of
from rowq.server.depths import Counted

MOST_NEEDS = 12

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
        totals=_totals(rows),
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


def _totals(rows: list[Row]) -> dict[str, int]:
    states = ("ready", "scheduled", "blocked", "leased", "dead")
    return {state: sum(getattr(row.stats, state) for row in rows) for state in states}
