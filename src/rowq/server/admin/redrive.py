"""Dead letters back into their queue, or away: one, those chosen, those of a failure, or all. And the routes that Forq has for it."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

import msgspec
from starlette.responses import Response

from rowq.errors import InvalidArgument
from rowq.model.queue import split_name
from rowq.server.admin import confirmation, progress
from rowq.server.admin.dead import queue_of
from rowq.server.admin.jobs import Job
from rowq.server.admin.request import Desk
from rowq.server.api import dead, queues
from rowq.server.http.errors import HttpError
from rowq.wire import Count, RedriveBody

DELETE_ALL = "Are you sure you want to permanently delete all messages? This cannot be undone."
_DELETE = "Are you sure you want to permanently delete these messages? This cannot be undone."
_GROUPS = 1_000


class _Chosen(NamedTuple):
    body: RedriveBody
    number: int | None
    is_exact: bool
    phrase: str
    """`all dead letters`."""


async def redrive(desk: Desk) -> Response:
    queue, back = _begin(desk)
    chosen = await _choose(desk, queue)
    if chosen is None:
        return desk.go(back, "Choose the dead letters first: tick their boxes.")
    if not confirmation.is_given(desk):
        return confirmation.ask(
            desk,
            sentence=f"They go back into {queue}, and are delivered as if they had just been sent.{_pace(chosen.body)}",
            number=chosen.number,
            is_exact=chosen.is_exact,
            noun="dead letter",
            of=queue,
            label=f"Redrive {chosen.phrase}",
            back=back,
            danger=False,
        )
    return progress.follow(desk, await _redrive(desk, queue, chosen, back))


async def remove(desk: Desk) -> Response:
    queue, back = _begin(desk)
    chosen = await _choose(desk, queue)
    if chosen is None:
        return desk.go(back, "Choose the dead letters first: tick their boxes.")
    if not confirmation.is_given(desk):
        sentence = DELETE_ALL if desk.given("all") else _DELETE
        label = f"Delete {chosen.phrase}"
        return confirmation.ask(
            desk, sentence=sentence, number=chosen.number, is_exact=chosen.is_exact, noun="dead letter", of=queue, label=label, back=back
        )
    return progress.follow(desk, await _remove(desk, queue, chosen, back))


async def redrive_all(desk: Desk) -> Response:
    queue, back = _forq(desk)
    return _told(desk, await _redrive(desk, queue, await _all(desk, queue, RedriveBody()), back))


async def delete_all(desk: Desk) -> Response:
    """At once: whoever sends it has asked somebody before."""
    queue, back = _forq(desk)
    return _told(desk, await _remove(desk, queue, await _all(desk, queue, RedriveBody()), back))


async def redrive_one(desk: Desk) -> Response:
    queue, back = _forq(desk)
    count = await desk.call(dead.redrive, body=RedriveBody(ids=[desk.path["id"]]), queue=queue)
    return _told_of_one(desk, count, queue, back, "redriven")


async def delete_one(desk: Desk) -> Response:
    queue, back = _forq(desk)
    count = await desk.call(dead.remove, body=RedriveBody(ids=[desk.path["id"]]), queue=queue)
    return _told_of_one(desk, count, queue, back, "deleted")


def back_to(desk: Desk, queue: str) -> str:
    """The list of dead letters as somebody was looking at it."""
    here = desk.given("here")
    return f"/queue/{queue}-dlq/" + (f"?{here}" if here else "")


def _begin(desk: Desk) -> tuple[str, str]:
    """The queue, and where to go back to. Nobody is asked to confirm what they may not do."""
    queue = queue_of(desk)
    desk.identity.check("admin", queue)
    return queue, back_to(desk, queue)


def _forq(desk: Desk) -> tuple[str, str]:
    name = desk.path["queue"]
    if not split_name(name)[1]:
        sentence = f"{name!r} is no queue of dead letters: this is done with those alone, under the name {name + '-dlq'!r}"
        raise HttpError(HTTPStatus.BAD_REQUEST, "bad_request.dlq_only_operation", sentence)
    return _begin(desk)


async def _choose(desk: Desk, queue: str) -> _Chosen | None:
    """What a form says of them; None if nothing is chosen."""
    if "one" in desk.form:
        return _Chosen(RedriveBody(ids=[desk.given("one")]), 1, True, "this dead letter")
    if desk.given("all"):
        return await _all(desk, queue, _paced(desk))
    if "fingerprint" in desk.form:
        return await _of_failure(desk, queue, desk.given("reason"), desk.given("fingerprint"))
    ids = list(dict.fromkeys(desk.form.get("id", ())))
    return _Chosen(RedriveBody(ids=ids), len(ids), True, "the selected dead letters") if ids else None


async def _all(desk: Desk, queue: str, body: RedriveBody) -> _Chosen:
    depth = (await desk.call(queues.get_stats, queue=queue)).dead
    if body.limit is None:
        return _Chosen(body, depth, True, "all dead letters")
    return _Chosen(body, min(depth, body.limit), True, "the oldest dead letters")


async def _of_failure(desk: Desk, queue: str, reason: str, mark: str) -> _Chosen:
    """Those that die of it from now on are among them, too."""
    found = await desk.call(dead.list_failures, query=dead.FailuresQuery(limit=_GROUPS), queue=queue)
    count = next((each.count for each in found.failures if (each.reason, each.fingerprint) == (reason, mark)), None)
    is_exact = not found.more
    return _Chosen(RedriveBody(reason=reason, fingerprint=mark), 0 if count is None and is_exact else count, is_exact, "these dead letters")


def _paced(desk: Desk) -> RedriveBody:
    fields = {name: text for name in ("rate", "limit") if (text := desk.given(name).strip())}
    try:
        return msgspec.convert(fields, RedriveBody, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"this cannot be read: {error}") from None


def _pace(body: RedriveBody) -> str:
    return "" if body.rate is None else f" At most {body.rate:g} a second."


async def _redrive(desk: Desk, queue: str, chosen: _Chosen, back: str) -> Job:
    return await desk.office.jobs.start(
        desk.identity,
        lambda progress: desk.call(dead.redrive, body=chosen.body, progress=progress, queue=queue),
        queue=queue,
        what=f"Redrive {chosen.phrase}",
        done_word="redriven",
        back=back,
        total=chosen.number if chosen.is_exact else None,
    )


async def _remove(desk: Desk, queue: str, chosen: _Chosen, back: str) -> Job:
    is_all = chosen.body == RedriveBody()
    return await desk.office.jobs.start(
        desk.identity,
        lambda progress: (
            desk.call(dead.purge_dead, progress=progress, queue=queue)
            if is_all
            else desk.call(dead.remove, body=chosen.body, progress=progress, queue=queue)
        ),
        queue=queue,
        what=f"Delete {chosen.phrase}",
        done_word="deleted",
        back=back,
        total=chosen.number if chosen.is_exact else None,
    )


def _told(desk: Desk, job: Job) -> Response:
    if _is_read_by_people(desk):
        return progress.follow(desk, job)
    if job.is_running:
        return Response(status_code=HTTPStatus.ACCEPTED, headers={"location": f"/jobs/{job.id}"})
    if job.error is not None:
        raise job.error
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _told_of_one(desk: Desk, count: Count, queue: str, back: str, done_word: str) -> Response:
    if not count.count:
        sentence = f"{desk.path['id']!r} is no dead letter of {queue!r}, or no longer: somebody has redriven, received or deleted it"
        raise HttpError(HTTPStatus.NOT_FOUND, "not_found.message", sentence)
    desk.office.depths.stale(queue)
    return desk.go(back, f"1 dead letter was {done_word}.") if _is_read_by_people(desk) else Response(status_code=HTTPStatus.NO_CONTENT)


def _is_read_by_people(desk: Desk) -> bool:
    return "text/html" in desk.headers.get("accept", "")
