"""Operations: who consumes, what runs by itself, what people did, and whether all is well."""

from __future__ import annotations

import time

from starlette.responses import Response

from rowq.errors import QueueNotFound, StreamNotFound
from rowq.model.message import Stats
from rowq.model.stream import Stream
from rowq.server.admin import confirmation
from rowq.server.admin.paging import paged
from rowq.server.admin.rendering import count, listed
from rowq.server.admin.request import Desk
from rowq.server.api import consumers, operations, queues, streams

MOST_CONSUMERS = 1_000
MOST_ACTIONS = 1_000
_EXAMINED = 60.0
_PATIENCE = 0.5
_REST = 10
"""Who comes to see how it is gets a fresher answer than the dashboard, which only mentions it."""


async def show_consumers(desk: Desk) -> Response:
    found = (await desk.call(consumers.list_all_consumers)).consumers
    queue = desk.asked("queue").strip()
    chosen = [one for one in found if not queue or one.queue == queue]
    rates = desk.office.rates.acks_per_minute()
    rows = [(one, None if one.id is None else rates.get((one.queue, one.id), 0.0)) for one in chosen]
    return desk.show(
        "operations/consumers.html",
        queue=queue,
        queues=sorted({one.queue for one in found}),
        is_full=len(found) >= MOST_CONSUMERS,
        now=desk.service.engine.clock.now(),
        **paged(desk, rows),
    )


async def show_streams(desk: Desk) -> Response:
    found: list[Stream] = (await desk.call(streams.list_streams)).streams
    counted = await desk.office.depths.look()
    rows = [(stream, _lag(stream, counted.stats)) for stream in found]
    return desk.show("operations/streams.html", now=desk.service.engine.clock.now(), age_ms=counted.age_ms, **paged(desk, rows))


async def revoke_stream(desk: Desk) -> Response:
    name = desk.path["stream"]
    stream = next((one for one in (await desk.call(streams.list_streams)).streams if one.name == name), None)
    if stream is None:
        raise StreamNotFound(f"there is no stream {name!r}")
    if not confirmation.is_given(desk):
        return confirmation.ask(
            desk,
            sentence=f"Everything that the stream {name} holds goes back to its queues. Its query cannot go on with the checkpoint that "
            "it has, and has to be started with a fresh one. What it has written already is received, and may be written, again.",
            number=stream.messages,
            label="Revoke stream",
            back="/streams",
        )
    gone = (await desk.call(streams.revoke_stream, stream=name)).count
    for queue in stream.queues:
        desk.office.depths.stale(queue)
    return desk.go("/streams", f"{name} was revoked: {count(gone, 'message')} went back to {listed(stream.queues)}.")


async def show_sweeps(desk: Desk) -> Response:
    found = await desk.call(operations.list_sweeps)
    return desk.show("operations/sweeps.html", sweeps=found.sweeps)


async def run_sweep(desk: Desk) -> Response:
    name = desk.path["sweep"]
    done = (await desk.call(operations.run_sweep, sweep=name)).count
    if name == "optimize":
        return desk.go("/sweeps", "optimize: done." if done else "optimize: not done, since others wrote all the time. Try again later.")
    return desk.go("/sweeps", f"{name}: {count(done, 'message')}.")


async def show_actions(desk: Desk) -> Response:
    queue = desk.asked("queue").strip()
    try:
        found = (await desk.call(queues.list_actions, query=queues.ActionsQuery(queue=queue or None, limit=MOST_ACTIONS))).events
    except QueueNotFound:  # the page says of a name that nothing was done to it, and stays open for another one
        found = []
    return desk.show("operations/actions.html", queue=queue, is_full=len(found) >= MOST_ACTIONS, **paged(desk, found))


async def show_health(desk: Desk) -> Response:
    office, checkup = desk.office, desk.office.checkup
    findings = await checkup.look(_EXAMINED, _PATIENCE, _REST)
    return desk.show(
        "operations/health.html",
        findings=findings,
        age_ms=checkup.age_ms,
        database=office.database,
        workers=office.workers,
        up_ms=(time.monotonic() - office.began) * 1000,
        waiting=desk.service.engine.waiting,
        watching=len(office.watching),
    )


def _lag(stream: Stream, stats: dict[str, Stats]) -> int:
    """What waits in its queues and what it has taken and not settled."""
    waiting = [stats[queue] for queue in stream.queues if queue in stats]
    return stream.messages + sum(one.ready + one.scheduled + one.blocked for one in waiting)
