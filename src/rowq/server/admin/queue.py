"""A queue: its messages by state, found by what is known of them; pausing, purging and removing it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from starlette.responses import Response

from rowq.engine.bulk import Progress
from rowq.errors import InvalidArgument, MessageNotFound, QueueNotFound
from rowq.model.message import Stats
from rowq.model.queue import check_own_name, split_name
from rowq.server.admin import confirmation, dead, message, progress
from rowq.server.admin.jobs import Job, Work
from rowq.server.admin.rendering import listed
from rowq.server.admin.request import Desk, details_url, one_of
from rowq.server.api import messages, queues
from rowq.wire import Count, Messages

PAGE = 50
TABS = ("ready", "scheduled", "blocked", "leased", "dead", "finished")
_LISTED = tuple(tab for tab in TABS if tab != "dead")
_FILTERS = ("key", "group", "text", "after_time", "before_time")
_NEWEST_FIRST = ("finished",)
"""What waits stands in the order in which it is handed out; what is over, with the last one first."""


async def show_queue(desk: Desk) -> Response:
    queue, is_dead = split_name(desk.path["queue"])
    if is_dead:
        return await dead.show_dead(desk)
    if id := desk.asked("id").strip():
        if response := await _go_to_message(desk, queue, id):
            return response
        return await _show(desk, queue, problem=f"There is no message {id}, and nothing is recorded of one.", status=404)
    return await _show(desk, queue)


async def pause(desk: Desk) -> Response:
    queue = check_own_name(desk.path["queue"])
    await desk.call(queues.pause, queue=queue)
    return desk.go(f"/queue/{queue}/", f"{queue} is paused: nothing is handed out. Sending goes on.")


async def resume(desk: Desk) -> Response:
    queue = check_own_name(desk.path["queue"])
    await desk.call(queues.resume, queue=queue)
    return desk.go(f"/queue/{queue}/", f"{queue} hands out messages again.")


async def show_purge(desk: Desk) -> Response:
    queue = check_own_name(desk.path["queue"])
    desk.identity.check("admin", queue)
    return await _ask_what_to_purge(desk, queue)


async def purge(desk: Desk) -> Response:
    queue = check_own_name(desk.path["queue"])
    desk.identity.check("admin", queue)
    states = list(dict.fromkeys(one_of(state, TABS, "state") for state in desk.form.get("state", [])))
    if not states:
        return await _ask_what_to_purge(desk, queue, "Choose what to delete.")
    number = _sum(await depth(desk, queue), states)
    if not confirmation.is_given(desk):
        return confirmation.ask(
            desk,
            sentence=f"All {listed(states)} messages of {queue} are deleted for good. This cannot be undone.",
            number=number,
            label="Delete the messages",
            back=f"/queue/{queue}/",
        )

    async def work(progress: Progress) -> Count:
        query = queues.PurgeQuery(state=states)  # type: ignore[arg-type]
        count: Count = await desk.call(queues.purge, query=query, progress=progress, queue=queue)
        return count

    return progress.follow(desk, await _start(desk, work, queue, f"Delete {listed(states)} messages", number, f"/queue/{queue}/"))


async def remove(desk: Desk) -> Response:
    """The queue with all that belongs to it."""
    queue = check_own_name(desk.path["queue"])
    desk.identity.check("admin", queue)
    number = _sum(await depth(desk, queue), TABS)
    if not confirmation.is_given(desk):
        return confirmation.ask(
            desk,
            sentence=f"The queue {queue} is deleted with its settings and all of its messages, dead letters too. This cannot be undone.",
            number=number,
            label="Delete the queue",
            back=f"/queue/{queue}/",
        )

    async def work(_: Progress) -> Count:
        await desk.call(queues.delete_queue, queue=queue)
        return Count(number or 0)

    job = await _start(desk, work, queue, f"Delete the queue {queue}", None, "/")
    if job.error is not None:
        raise job.error
    return progress.follow(desk, job) if job.is_running else desk.go("/", f"The queue {queue} was deleted.")


async def depth(desk: Desk, queue: str) -> Stats | None:
    """As of now if that can be had in a moment, else as it was counted last; None where it was not yet."""
    desk.office.depths.stale(queue)
    counted = await desk.office.depths.look(desk.identity.reaches)
    found: Stats | None = counted.stats.get(queue)
    return found


async def _show(desk: Desk, queue: str, problem: str = "", status: int = 200) -> Response:
    state = one_of(desk.asked("state", "ready"), TABS, "state")
    if state == "dead":
        return desk.go(f"/queue/{queue}-dlq/")
    policy = await desk.call(queues.get_policy, queue=queue)
    counted = await desk.office.depths.look(desk.identity.reaches)
    is_known = await _is_known(desk, queue)
    found: Messages | None = Messages([])
    if is_known and not problem:
        try:
            found = await _find(desk, queue, state)
        except InvalidArgument as error:
            problem, status = str(error), 400
    is_filtered = any(desk.asked(name) for name in _FILTERS)
    response = desk.show(
        "queue/queue.html",
        status=status,
        queue=queue,
        is_known=is_known,
        paused=policy.paused is True,
        state=state,
        tabs=TABS,
        stats=counted.stats.get(queue),
        age_ms=counted.age_ms,
        history=desk.office.rates.of(queue),
        found=found,
        problem=problem,
        is_filtered=is_filtered,
        is_live=not is_filtered and not desk.asked("after") and not problem,
        now=desk.service.engine.clock.now(),
    )
    if desk.is_fragment and not is_known:
        response.headers["HX-Refresh"] = "true"  # it was deleted while somebody looked at it
    return response


async def _find(desk: Desk, queue: str, state: str) -> Messages | None:
    """None: it is still being looked for."""
    query = messages.BrowseQuery(
        state=one_of(state, _LISTED, "state"),  # type: ignore[arg-type]
        key=desk.asked("key") or None,
        group=desk.asked("group") or None,
        text=desk.asked("text") or None,
        sent_after=_moment(desk.asked("after_time"), "sent after"),
        sent_before=_moment(desk.asked("before_time"), "sent before"),
        after=desk.asked("after") or None,
        limit=PAGE,
        newest=state in _NEWEST_FIRST,
    )
    if not any(desk.asked(name) for name in _FILTERS):
        found: Messages = await desk.call(messages.browse, query=query, queue=queue)
        return found
    return await desk.office.searches.find(desk.identity.name, desk.link(), lambda: desk.call(messages.browse, query=query, queue=queue))


async def _go_to_message(desk: Desk, queue: str, id: str) -> Response | None:
    """In this queue or another one; also where only its story is left."""
    try:
        where, _, _ = await message.find(desk, id, queue)
    except (MessageNotFound, InvalidArgument):
        return None
    return desk.go(details_url(where, id))


async def _is_known(desk: Desk, queue: str) -> bool:
    try:
        await desk.call(queues.list_settings, query=queues.SettingsQuery(queue=queue))
    except QueueNotFound:
        return False
    return True


async def _ask_what_to_purge(desk: Desk, queue: str, problem: str = "") -> Response:
    stats = await depth(desk, queue)
    return desk.show("queue/purge.html", status=400 if problem else 200, queue=queue, states=TABS, stats=stats, problem=problem)


def _moment(text: str, what: str) -> int | None:
    if not text:
        return None
    try:
        return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidArgument(f"{what}: {text!r} is no time; write it as 2026-01-31T08:30, in UTC") from None


async def _start(desk: Desk, work: Work, queue: str, what: str, number: int | None, back: str) -> Job:
    """A million messages take a while to go."""
    return await desk.office.jobs.start(
        desk.identity, work, queue=queue, what=what, noun="message", done_word="deleted", back=back, total=number
    )


def _sum(stats: Stats | None, states: Sequence[str]) -> int | None:
    return None if stats is None else sum(getattr(stats, state) for state in states)
