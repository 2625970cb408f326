"""The operations pages: consumers, streams, maintenance, operators' actions, and health."""

from __future__ import annotations

import time

from starlette.responses import Response

from rowq.errors import QueueNotFound, StreamNotFound
from rowq.model.message import Stats
from rowq.model.stream import Stream
from rowq.server.admin import confirmation
from rowq.server.admin.rendering import count, listed
from rowq.server.admin.request import AdminRequest, paged
from rowq.server.api import consumers, operations, queues

MOST_CONSUMERS = 1_000
MOST_ACTIONS = 1_000
_EXAMINED = 60.0
_PATIENCE = 0.5
_REST = 10
"""The health page shows fresher findings than the dashboard, which only mentions them."""


async def show_consumers(request: AdminRequest) -> Response:
    found = (await request.call(consumers.list_all_consumers)).consumers
    queue = request.asked("queue").strip()
    chosen = [one for one in found if not queue or one.queue == queue]
    rates = request.context.rates.acks_per_minute()
    rows = [(one, None if one.id is None else rates.get((one.queue, one.id), 0.0)) for one in chosen]
    return request.show(
        "operations/consumers.html",
        queue=queue,
        queues=sorted({one.queue for one in found}),
        is_full=len(found) >= MOST_CONSUMERS,
        **paged(request, rows),
    )


async def show_streams(request: AdminRequest) -> Response:
    found: list[Stream] = (await request.call(consumers.list_streams)).streams
    counted = await request.context.depths.look()
    rows = [(stream, _lag(stream, counted.stats)) for stream in found]
    return request.show("operations/streams.html", age_ms=counted.age_ms, **paged(request, rows))


async def revoke_stream(request: AdminRequest) -> Response:
    name = request.path["stream"]
    stream = next((one for one in (await request.call(consumers.list_streams)).streams if one.name == name), None)
    if stream is None:
        raise StreamNotFound(f"there is no stream {name!r}")
    if not confirmation.is_given(request):
        return confirmation.ask(
            request,
            sentence=f"Everything that the stream {name} holds goes back to its queues. Its query cannot continue from its checkpoint, and "
            "has to be started with a new one. Messages that it has already written are received, and may be written, again.",
            number=stream.messages,
            label="Revoke stream",
            back="/streams",
        )
    gone = (await request.call(consumers.revoke_stream, stream=name)).count
    for queue in stream.queues:
        request.context.depths.stale(queue)
    return request.go("/streams", f"{name} was revoked: {count(gone, 'message')} went back to {listed(stream.queues)}.")


async def show_maintenance(request: AdminRequest) -> Response:
    found = await request.call(operations.list_sweeps)
    return request.show("operations/maintenance.html", tasks=found.sweeps)


async def run_maintenance(request: AdminRequest) -> Response:
    name = request.path["sweep"]
    done = (await request.call(operations.run_sweep, sweep=name)).count
    if name == "optimize":
        return request.go("/sweeps", "optimize: done." if done else "optimize: not done, because of concurrent writes. Try again later.")
    return request.go("/sweeps", f"{name}: {count(done, 'message')}.")


async def show_actions(request: AdminRequest) -> Response:
    queue = request.asked("queue").strip()
    try:
        found = (await request.call(queues.list_actions, query=queues.ActionsQuery(queue=queue or None, limit=MOST_ACTIONS))).events
    except QueueNotFound:  # the page shows an empty list, with the form for another name
        found = []
    return request.show("operations/actions.html", queue=queue, is_full=len(found) >= MOST_ACTIONS, **paged(request, found))


async def show_health(request: AdminRequest) -> Response:
    context, checkup = request.context, request.context.checkup
    findings = await checkup.look(_EXAMINED, _PATIENCE, _REST)
    return request.show(
        "operations/health.html",
        findings=findings,
        age_ms=checkup.age_ms,
        database=context.database,
        workers=context.workers,
        up_ms=(time.monotonic() - context.began) * 1000,
        waiting=request.service.engine.waiting,
        watching=len(context.watching),
    )


def _lag(stream: Stream, stats: dict[str, Stats]) -> int:
    """The messages that wait in its queues, plus those it holds unsettled."""
    waiting = [stats[queue] for queue in stream.queues if queue in stats]
    return stream.messages + sum(one.ready + one.scheduled + one.blocked for one in waiting)
