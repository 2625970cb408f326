"""The pages of dead letters, of one queue and of all: failures by cause, the messages, and the actions on them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from rowq.errors import QueueNotFound
from rowq.model.lifecycle import REASONS
from rowq.model.message import Stats
from rowq.model.queue import check_own_name, split_name
from rowq.server.admin.request import AdminRequest
from rowq.server.api import dead, messages
from rowq.wire import MessageLook, Messages

PAGE = 50
_FILTERS = ("reason", "text", "key", "group")
_GROUPS = 20
_MOST_QUEUES = 100


async def show_dead(request: AdminRequest) -> Response:
    """The page of `emails-dlq` and `emails.dlq`."""
    queue = queue_of(request)
    request.identity.check("look", queue)
    failures, found, counted = await asyncio.gather(
        request.call(dead.list_failures, query=dead.FailuresQuery(limit=_GROUPS), queue=queue),
        _find(request, queue),
        request.context.depths.look(request.identity.reaches),
    )
    return request.show(
        "dead/queue.html",
        queue=queue,
        stats=counted.stats.get(queue),
        failures=failures,
        found=found,
        is_partial=found is not None and found.next is not None and len(found.messages) < PAGE,
        reasons=REASONS,
        filters={name: request.asked(name) for name in _FILTERS},
        mark=_mark(request),
        is_filtered=_is_filtered(request),
        here=urlencode(request.query, doseq=True),
        jobs=[job for job in request.context.jobs.running(request.identity) if job.queue == queue],
        now=request.service.engine.clock.now(),
    )


async def show_all(request: AdminRequest) -> Response:
    """Every queue that has dead letters, with its newest one; the queue with the newest dead letter first."""
    counted = await request.context.depths.look(request.identity.reaches)
    fullest = sorted((stats for stats in counted.stats.values() if stats.dead), key=lambda stats: -stats.dead)
    rows: list[tuple[Stats, MessageLook | None]] = []
    for stats in fullest[:_MOST_QUEUES]:
        try:
            page = await request.call(messages.browse_dead, query=messages.DeadQuery(limit=1, newest=True), queue=stats.queue)
        except QueueNotFound:  # deleted since it was counted
            continue
        rows.append((stats, page.messages[0] if page.messages else None))
    rows.sort(key=lambda row: -(row[1].died_at or 0) if row[1] else 0)
    left_out = max(0, len(fullest) - _MOST_QUEUES)
    return request.show("dead/all.html", rows=rows, left_out=left_out, counted=counted, now=request.service.engine.clock.now())


def queue_of(request: AdminRequest) -> str:
    """The queue whose dead letters the path names, with or without the suffix."""
    return check_own_name(split_name(request.path["queue"])[0])


async def _find(request: AdminRequest, queue: str) -> Messages | None:
    """A page of matches, the newest first; None while the search still runs."""
    given: dict[str, Any] = {name: request.asked(name) or None for name in (*_FILTERS, "after")}
    query = messages.DeadQuery(**given, fingerprint=_mark(request), newest=True, limit=PAGE)
    look = partial(request.call, messages.browse_dead, query=query, queue=queue)
    return await (request.context.searches.find(request.identity.name, request.link(), look) if _is_filtered(request) else look())


def _is_filtered(request: AdminRequest) -> bool:
    return any(request.asked(name) for name in _FILTERS) or _mark(request) is not None


def _mark(request: AdminRequest) -> str | None:
    """The fingerprint of a failure; dead letters without an error have an empty one."""
    return request.query["fingerprint"][-1] if "fingerprint" in request.query else None
