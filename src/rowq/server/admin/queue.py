"""The page of a queue: its messages by state, with filters; pausing, purging and deleting it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from starlette.responses import Response

from rowq.engine.bulk import Progress
from rowq.errors import InvalidArgument, MessageNotFound, QueueNotFound
from rowq.model.message import Stats
from rowq.model.queue import check_own_name, split_name
from rowq.server.admin import confirmation, dead, message, progress
from rowq.server.admin.jobs import Job, Task
from rowq.server.admin.rendering import listed
from rowq.server.admin.request import AdminRequest, details_url, one_of
from rowq.server.api import messages, queues
from rowq.wire import Count, Messages

PAGE = 50
TABS = ("ready", "scheduled", "blocked", "leased", "dead", "finished")
_LISTED = tuple(tab for tab in TABS if tab != "dead")
_FILTERS = ("key", "group", "text", "after_time", "before_time")
_NEWEST_FIRST = ("finished",)
"""Waiting messages are listed in delivery order; finished ones, the newest first."""


async def show_queue(request: AdminRequest) -> Response:
    queue, is_dead = split_name(request.path["queue"])
    if is_dead:
        return await dead.show_dead(request)
    if id := request.asked("id").strip():
        if response := await _go_to_message(request, queue, id):
            return response
        return await _show(request, queue, problem=f"There is no message {id}, and no record of one.", status=404)
    return await _show(request, queue)


async def pause(request: AdminRequest) -> Response:
    queue = check_own_name(request.path["queue"])
    await request.call(queues.pause, queue=queue)
    return request.go(f"/queue/{queue}/", f"{queue} is paused: nothing is delivered. Sending still works.")


async def resume(request: AdminRequest) -> Response:
    queue = check_own_name(request.path["queue"])
    await request.call(queues.resume, queue=queue)
    return request.go(f"/queue/{queue}/", f"{queue} delivers messages again.")


async def show_purge(request: AdminRequest) -> Response:
    queue = check_own_name(request.path["queue"])
    request.identity.check("admin", queue)
    return await _ask_what_to_purge(request, queue)


async def purge(request: AdminRequest) -> Response:
    queue = check_own_name(request.path["queue"])
    request.identity.check("admin", queue)
    states = list(dict.fromkeys(one_of(state, TABS, "state") for state in request.form.get("state", [])))
    if not states:
        return await _ask_what_to_purge(request, queue, "Choose what to delete.")
    number = _sum(await depth(request, queue), states)
    if not confirmation.is_given(request):
        return confirmation.ask(
            request,
            sentence=f"All {listed(states)} messages of {queue} are permanently deleted. This cannot be undone.",
            number=number,
            label="Delete the messages",
            back=f"/queue/{queue}/",
        )

    async def task(progress: Progress) -> Count:
        query = queues.PurgeQuery(state=states)  # type: ignore[arg-type]
        count: Count = await request.call(queues.purge, query=query, progress=progress, queue=queue)
        return count

    return progress.follow(request, await _start(request, task, queue, f"Delete {listed(states)} messages", number, f"/queue/{queue}/"))


async def remove(request: AdminRequest) -> Response:
    """The queue with its messages and settings."""
    queue = check_own_name(request.path["queue"])
    request.identity.check("admin", queue)
    number = _sum(await depth(request, queue), TABS)
    if not confirmation.is_given(request):
        return confirmation.ask(
            request,
            sentence=f"The queue {queue} is deleted with its settings and all of its messages, dead letters too. This cannot be undone.",
            number=number,
            label="Delete the queue",
            back=f"/queue/{queue}/",
        )

    async def task(_: Progress) -> Count:
        await request.call(queues.delete_queue, queue=queue)
        return Count(number or 0)

    job = await _start(request, task, queue, f"Delete the queue {queue}", None, "/")
    if job.error is not None:
        raise job.error
    return progress.follow(request, job) if job.is_running else request.go("/", f"The queue {queue} was deleted.")


async def depth(request: AdminRequest, queue: str) -> Stats | None:
    """A fresh count if it is quick, else the last one; None before the first."""
    request.context.depths.stale(queue)
    counted = await request.context.depths.look(request.identity.reaches)
    found: Stats | None = counted.stats.get(queue)
    return found


async def _show(request: AdminRequest, queue: str, problem: str = "", status: int = 200) -> Response:
    state = one_of(request.asked("state", "ready"), TABS, "state")
    if state == "dead":
        return request.go(f"/queue/{queue}-dlq/")
    policy = await request.call(queues.get_policy, queue=queue)
    counted = await request.context.depths.look(request.identity.reaches)
    is_known = await _is_known(request, queue)
    found: Messages | None = Messages([])
    if is_known and not problem:
        try:
            found = await _find(request, queue, state)
        except InvalidArgument as error:
            problem, status = str(error), 400
    is_filtered = any(request.asked(name) for name in _FILTERS)
    response = request.show(
        "queue/queue.html",
        status=status,
        queue=queue,
        is_known=is_known,
        paused=policy.paused is True,
        state=state,
        tabs=TABS,
        stats=counted.stats.get(queue),
        age_ms=counted.age_ms,
        history=request.context.rates.of(queue),
        found=found,
        problem=problem,
        is_filtered=is_filtered,
        is_live=not is_filtered and not request.asked("after") and not problem,
    )
    if request.is_fragment and not is_known:
        response.headers["HX-Refresh"] = "true"  # it was deleted while the page was open
    return response


async def _find(request: AdminRequest, queue: str, state: str) -> Messages | None:
    """None while the search still runs."""
    query = messages.BrowseQuery(
        state=one_of(state, _LISTED, "state"),  # type: ignore[arg-type]
        key=request.asked("key") or None,
        group=request.asked("group") or None,
        text=request.asked("text") or None,
        sent_after=_moment(request.asked("after_time"), "sent after"),
        sent_before=_moment(request.asked("before_time"), "sent before"),
        after=request.asked("after") or None,
        limit=PAGE,
        newest=state in _NEWEST_FIRST,
    )
    if not any(request.asked(name) for name in _FILTERS):
        found: Messages = await request.call(messages.browse, query=query, queue=queue)
        return found
    return await request.context.searches.find(
        request.identity.name, request.link(), lambda: request.call(messages.browse, query=query, queue=queue)
    )


async def _go_to_message(request: AdminRequest, queue: str, id: str) -> Response | None:
    """In this queue or another; also if only its history is left."""
    try:
        where, _, _ = await message.find(request, id, queue)
    except (MessageNotFound, InvalidArgument):
        return None
    return request.go(details_url(where, id))


async def _is_known(request: AdminRequest, queue: str) -> bool:
    try:
        await request.call(queues.list_settings, query=queues.SettingsQuery(queue=queue))
    except QueueNotFound:
        return False
    return True


async def _ask_what_to_purge(request: AdminRequest, queue: str, problem: str = "") -> Response:
    stats = await depth(request, queue)
    return request.show("queue/purge.html", status=400 if problem else 200, queue=queue, states=TABS, stats=stats, problem=problem)


def _moment(text: str, what: str) -> int | None:
    if not text:
        return None
    try:
        return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidArgument(f"{what}: {text!r} is not a time; write it as 2026-01-31T08:30, in UTC") from None


async def _start(request: AdminRequest, task: Task, queue: str, what: str, number: int | None, back: str) -> Job:
    """A job, since deleting a million messages takes a while."""
    return await request.context.jobs.start(
        request.identity, task, queue=queue, what=what, noun="message", done_word="deleted", back=back, total=number
    )


def _sum(stats: Stats | None, states: Sequence[str]) -> int | None:
    return None if stats is None else sum(getattr(stats, state) for state in states)
