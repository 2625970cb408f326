"""Dead letters: why they died, which they are, and what can be done with them; of one queue, and of all."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from rowq.errors import QueueNotFound
from rowq.model.fingerprint import fingerprint
from rowq.model.lifecycle import REASONS
from rowq.model.message import Stats
from rowq.model.queue import check_own_name, split_name
from rowq.server.admin.request import Desk
from rowq.server.api import dead, messages
from rowq.wire import MessageLook

PAGE = 50
_FILTERS = ("reason", "text", "key", "group")
_GROUPS = 20
_PIECE = 200
_PATIENCE = 0.4
"""Seconds that letters are looked through for those of a reason or a failure; then somebody is asked whether to go on."""
_MOST_QUEUES = 100


class _Found(NamedTuple):
    letters: list[MessageLook]
    next: str | None
    looked_at: int | None
    """How many were looked through, where that came to no end."""


async def show_dead(desk: Desk) -> Response:
    """The page of `emails-dlq` and `emails.dlq`."""
    queue = queue_of(desk)
    desk.identity.check("look", queue)
    failures, found, counted = await asyncio.gather(
        desk.call(dead.list_failures, query=dead.FailuresQuery(limit=_GROUPS), queue=queue),
        _find(desk, queue),
        desk.office.depths.look(desk.identity.reaches),
    )
    return desk.show(
        "dead/queue.html",
        queue=queue,
        stats=counted.stats.get(queue),
        failures=failures,
        found=found,
        reasons=REASONS,
        filters={name: desk.asked(name) for name in _FILTERS},
        mark=_mark(desk),
        is_filtered=_is_filtered(desk),
        here=urlencode(desk.query, doseq=True),
        jobs=[job for job in desk.office.jobs.running(desk.identity) if job.queue == queue],
        now=desk.service.engine.clock.now(),
    )


async def show_all(desk: Desk) -> Response:
    """Every queue that has dead letters, with the newest of each; those where something died last come first."""
    counted = await desk.office.depths.look(desk.identity.reaches)
    fullest = sorted((stats for stats in counted.stats.values() if stats.dead), key=lambda stats: -stats.dead)
    rows: list[tuple[Stats, MessageLook | None]] = []
    for stats in fullest[:_MOST_QUEUES]:
        try:
            page = await desk.call(messages.browse_dead, query=messages.DeadQuery(limit=1, newest=True), queue=stats.queue)
        except QueueNotFound:  # it was deleted since it was counted
            continue
        rows.append((stats, page.messages[0] if page.messages else None))
    rows.sort(key=lambda row: -(row[1].died_at or 0) if row[1] else 0)
    left_out = max(0, len(fullest) - _MOST_QUEUES)
    return desk.show("dead/all.html", rows=rows, left_out=left_out, counted=counted, now=desk.service.engine.clock.now())


def queue_of(desk: Desk) -> str:
    """The queue whose dead letters the path means, under its own name or theirs. Dead letters have no dead letters."""
    return check_own_name(split_name(desk.path["queue"])[0])


async def _find(desk: Desk, queue: str) -> _Found | None:
    """A page of those that match, the newest first; None: they are still being looked for."""
    given: dict[str, Any] = {name: desk.asked(name) or None for name in ("key", "group", "text", "after")}
    if not _is_filtered(desk):
        return await _browse(desk, queue, given)
    reason, mark = desk.asked("reason") or None, _mark(desk)
    look = partial(_browse, desk, queue, given) if reason is mark is None else partial(_look_through, desk, queue, given, reason, mark)
    return await desk.office.searches.find(desk.identity.name, desk.link(), look)


async def _browse(desk: Desk, queue: str, given: dict[str, Any]) -> _Found:
    page = await desk.call(messages.browse_dead, query=messages.DeadQuery(**given, newest=True, limit=PAGE), queue=queue)
    return _Found(page.messages, page.next, None)


async def _look_through(desk: Desk, queue: str, given: dict[str, Any], reason: str | None, mark: str | None) -> _Found:
    """No index knows these by what they died of."""
    letters: list[MessageLook] = []
    looked_at, until = 0, time.monotonic() + _PATIENCE
    while True:
        page = await desk.call(messages.browse_dead, query=messages.DeadQuery(**given, newest=True, limit=_PIECE), queue=queue)
        for letter in page.messages:
            looked_at += 1
            if reason in (None, letter.reason) and mark in (None, fingerprint(letter.error or "")):
                letters.append(letter)
                if len(letters) == PAGE:
                    return _Found(letters, letter.cursor, None)
        given["after"] = page.next
        if page.next is None or time.monotonic() > until:
            return _Found(letters, page.next, None if page.next is None else looked_at)


def _is_filtered(desk: Desk) -> bool:
    return any(desk.asked(name) for name in _FILTERS) or _mark(desk) is not None


def _mark(desk: Desk) -> str | None:
    """The fingerprint of a failure; an empty one is that of letters without an error."""
    return desk.query["fingerprint"][-1] if "fingerprint" in desk.query else None
