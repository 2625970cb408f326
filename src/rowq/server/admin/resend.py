"""Editing a dead letter and sending it as a new message. The dead letter stays, unless the operator ticks the box to delete it."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from rowq.errors import MessageNotFound, RowqError
from rowq.server.admin import send
from rowq.server.admin.dead import queue_of
from rowq.server.admin.request import AdminRequest, details_url
from rowq.server.api import dead, messages
from rowq.server.http.errors import HttpError
from rowq.wire import MessageLook, RedriveBody


async def show_form(request: AdminRequest) -> Response:
    queue = queue_of(request)
    request.identity.check("send", queue)
    return send.show(request, queue, send.typed_of(await _letter(request, queue)), **_options(queue))


async def resend(request: AdminRequest) -> Response:
    queue = queue_of(request)
    request.identity.check("send", queue)
    await _letter(request, queue)
    sent = await send.send_typed(request, queue, **_options(queue))
    if isinstance(sent, Response):
        return sent
    notice = "Sent as a new message."
    if request.given("removal"):
        notice += await _delete(request, queue)
    return request.go(details_url(queue, sent), notice)


async def _letter(request: AdminRequest, queue: str) -> MessageLook:
    with suppress(MessageNotFound):
        letter: MessageLook = await request.call(messages.get_message, query=messages.MessageQuery(queue), id=request.path["id"])
        if letter.state == "dead":
            return letter
    raise HttpError(
        HTTPStatus.NOT_FOUND, "not_found.message", f"{request.path['id']!r} is not, or is no longer, a dead letter of {queue!r}"
    )


async def _delete(request: AdminRequest, queue: str) -> str:
    """The new message is already durable, so nothing is lost if this fails."""
    try:
        count = (await request.call(dead.remove, body=RedriveBody(ids=[request.path["id"]]), queue=queue)).count
    except RowqError as error:
        return f" The dead letter is still there: {error}"
    request.context.depths.stale(queue)
    return " The dead letter was deleted." if count else " The dead letter was already gone: it was redriven or deleted meanwhile."


def _options(queue: str) -> dict[str, Any]:
    return {
        "title": "Edit and resend",
        "label": "Send as a new message",
        "back": f"/queue/{queue}-dlq/",
        "also": ("removal", "Delete the dead letter once this is sent"),
    }
