"""Redriving and deleting dead letters: one, the selected, those of a failure, or all. Also the routes that Forq has for it."""

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
from rowq.server.admin.request import AdminRequest
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


async def redrive(request: AdminRequest) -> Response:
    queue, back = _begin(request)
    chosen = await _choose(request, queue)
    if chosen is None:
        return request.go(back, "Choose the dead letters first: tick their boxes.")
    if not confirmation.is_given(request):
        return confirmation.ask(
            request,
            sentence=f"They go back into {queue} and are delivered as if they had just been sent.{_pace(chosen.body)}",
            number=chosen.number,
            is_exact=chosen.is_exact,
            noun="dead letter",
            of=queue,
            label=f"Redrive {chosen.phrase}",
            back=back,
            danger=False,
        )
    return progress.follow(request, await _redrive(request, queue, chosen, back))


async def remove(request: AdminRequest) -> Response:
    queue, back = _begin(request)
    chosen = await _choose(request, queue)
    if chosen is None:
        return request.go(back, "Choose the dead letters first: tick their boxes.")
    if not confirmation.is_given(request):
        sentence = DELETE_ALL if request.given("all") else _DELETE
        label = f"Delete {chosen.phrase}"
        return confirmation.ask(
            request, sentence=sentence, number=chosen.number, is_exact=chosen.is_exact, noun="dead letter", of=queue, label=label, back=back
        )
    return progress.follow(request, await _remove(request, queue, chosen, back))


async def redrive_all(request: AdminRequest) -> Response:
    queue, back = _forq(request)
    return _told(request, await _redrive(request, queue, await _all(request, queue, RedriveBody()), back))


async def delete_all(request: AdminRequest) -> Response:
    """No confirmation page: the client has already confirmed."""
    queue, back = _forq(request)
    return _told(request, await _remove(request, queue, await _all(request, queue, RedriveBody()), back))


async def redrive_one(request: AdminRequest) -> Response:
    queue, back = _forq(request)
    count = await request.call(dead.redrive, body=RedriveBody(ids=[request.path["id"]]), queue=queue)
    return _told_of_one(request, count, queue, back, "redriven")


async def delete_one(request: AdminRequest) -> Response:
    queue, back = _forq(request)
    count = await request.call(dead.remove, body=RedriveBody(ids=[request.path["id"]]), queue=queue)
    return _told_of_one(request, count, queue, back, "deleted")


def back_to(request: AdminRequest, queue: str) -> str:
    """The list of dead letters with the filters of the page that sent the form."""
    here = request.given("here")
    return f"/queue/{queue}-dlq/" + (f"?{here}" if here else "")


def _begin(request: AdminRequest) -> tuple[str, str]:
    """The queue, and where to go back to. Rights are checked before any confirmation page."""
    queue = queue_of(request)
    request.identity.check("admin", queue)
    return queue, back_to(request, queue)


def _forq(request: AdminRequest) -> tuple[str, str]:
    name = request.path["queue"]
    if not split_name(name)[1]:
        sentence = f"{name!r} is not a dead-letter queue: use the name {name + '-dlq'!r}"
        raise HttpError(HTTPStatus.BAD_REQUEST, "bad_request.dlq_only_operation", sentence)
    return _begin(request)


async def _choose(request: AdminRequest, queue: str) -> _Chosen | None:
    """The selection in a form; None if nothing is selected."""
    if "one" in request.form:
        return _Chosen(RedriveBody(ids=[request.given("one")]), 1, True, "this dead letter")
    if request.given("all"):
        return await _all(request, queue, _paced(request))
    if "fingerprint" in request.form:
        return await _of_failure(request, queue, request.given("reason"), request.given("fingerprint"))
    ids = list(dict.fromkeys(request.form.get("id", ())))
    return _Chosen(RedriveBody(ids=ids), len(ids), True, "the selected dead letters") if ids else None


async def _all(request: AdminRequest, queue: str, body: RedriveBody) -> _Chosen:
    depth = (await request.call(queues.get_stats, queue=queue)).dead
    if body.limit is None:
        return _Chosen(body, depth, True, "all dead letters")
    return _Chosen(body, min(depth, body.limit), True, "the oldest dead letters")


async def _of_failure(request: AdminRequest, queue: str, reason: str, mark: str) -> _Chosen:
    """Messages that die of it from now on are included."""
    found = await request.call(dead.list_failures, query=dead.FailuresQuery(limit=_GROUPS), queue=queue)
    count = next((each.count for each in found.failures if (each.reason, each.fingerprint) == (reason, mark)), None)
    is_exact = not found.more
    return _Chosen(RedriveBody(reason=reason, fingerprint=mark), 0 if count is None and is_exact else count, is_exact, "these dead letters")


def _paced(request: AdminRequest) -> RedriveBody:
    fields = {name: text for name in ("rate", "limit") if (text := request.given(name).strip())}
    try:
        return msgspec.convert(fields, RedriveBody, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"this cannot be read: {error}") from None


def _pace(body: RedriveBody) -> str:
    return "" if body.rate is None else f" At most {body.rate:g} per second."


async def _redrive(request: AdminRequest, queue: str, chosen: _Chosen, back: str) -> Job:
    return await request.context.jobs.start(
        request.identity,
        lambda progress: request.call(dead.redrive, body=chosen.body, progress=progress, queue=queue),
        queue=queue,
        what=f"Redrive {chosen.phrase}",
        done_word="redriven",
        back=back,
        total=chosen.number if chosen.is_exact else None,
    )


async def _remove(request: AdminRequest, queue: str, chosen: _Chosen, back: str) -> Job:
    is_all = chosen.body == RedriveBody()
    return await request.context.jobs.start(
        request.identity,
        lambda progress: (
            request.call(dead.purge_dead, progress=progress, queue=queue)
            if is_all
            else request.call(dead.remove, body=chosen.body, progress=progress, queue=queue)
        ),
        queue=queue,
        what=f"Delete {chosen.phrase}",
        done_word="deleted",
        back=back,
        total=chosen.number if chosen.is_exact else None,
    )


def _told(request: AdminRequest, job: Job) -> Response:
    if _is_read_by_people(request):
        return progress.follow(request, job)
    if job.is_running:
        return Response(status_code=HTTPStatus.ACCEPTED, headers={"location": f"/jobs/{job.id}"})
    if job.error is not None:
        raise job.error
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _told_of_one(request: AdminRequest, count: Count, queue: str, back: str, done_word: str) -> Response:
    if not count.count:
        sentence = f"{request.path['id']!r} is no longer a dead letter of {queue!r}: it was redriven, received or deleted"
        raise HttpError(HTTPStatus.NOT_FOUND, "not_found.message", sentence)
    request.context.depths.stale(queue)
    return (
        request.go(back, f"1 dead letter was {done_word}.") if _is_read_by_people(request) else Response(status_code=HTTPStatus.NO_CONTENT)
    )


def _is_read_by_people(request: AdminRequest) -> bool:
    return "text/html" in request.headers.get("accept", "")
