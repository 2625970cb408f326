"""The page of a message: contents, state, and history. It also shows a message that is gone, as long as its audit is kept."""

from __future__ import annotations

import asyncio
import base64
import re
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from rowq.errors import MessageNotFound
from rowq.model.message import Event
from rowq.model.queue import split_name
from rowq.model.settings_text import write_setting
from rowq.server.admin import confirmation
from rowq.server.admin.rendering import pretty, visible
from rowq.server.admin.request import AdminRequest, details_url
from rowq.server.api import messages, queues
from rowq.store.lookup import not_found
from rowq.wire import MessageLook, to_backoff

SHOWN = 64 << 10
_SHOWN_HEX = 4 << 10
_LINE = 16
"""Bytes in a line of hexadecimal."""
_LINES = 500
"""Lines of history shown, the newest: a message without an attempt limit can have very many."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


async def show_details(request: AdminRequest) -> Response:
    queue, id = split_name(request.path["queue"])[0], request.path["id"]
    where, message, events = await find(request, id, queue)
    if where != queue:
        return request.go(details_url(where, id))
    policy = await request.call(queues.get_policy, queue=queue)
    return request.show(
        "message/details.html",
        queue=queue,
        id=id,
        message=message,
        events=events[-_LINES:],
        left_out=max(0, len(events) - _LINES),
        shown=None if message is None or _is_bodiless(message) else await asyncio.to_thread(_shown, message),
        max_attempts=policy.max_attempts if message is None or message.max_attempts is None else message.max_attempts,
        backoff=None if message is None else write_setting("backoff", to_backoff(message.backoff_ms)),
    )


async def download(request: AdminRequest) -> Response:
    """The raw payload as an attachment, so that no browser renders it."""
    message: MessageLook = await request.call(messages.get_message, query=_here(request), id=request.path["id"])
    data, ending = await asyncio.to_thread(_whole, message)
    if request.asked("as") == "base64":
        data, ending = base64.b64encode(data), "base64.txt"
    name = f"{_UNSAFE.sub('_', message.id)}.{ending}"
    kind = "application/octet-stream" if ending == "bin" else "text/plain; charset=utf-8"
    return Response(data, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


async def remove(request: AdminRequest) -> Response:
    """In any state; the receipt of a consumer that holds it becomes void."""
    id = request.path["id"]
    message: MessageLook = await request.call(messages.get_message, query=_here(request), id=id)
    if not confirmation.is_given(request):
        held = " A consumer is processing it, and cannot settle it any more." if message.state == "leased" else ""
        return confirmation.ask(
            request,
            sentence=f"The message {id} of {message.queue} is permanently deleted. This cannot be undone.{held}",
            number=1,
            label="Delete the message",
            back=details_url(message.queue, id),
        )
    await request.call(messages.delete_message, query=_here(request), id=id)
    request.context.depths.stale(message.queue)
    suffix = "-dlq" if message.state == "dead" else ""
    return request.go(f"/queue/{message.queue}{suffix}/", f"The message {id} was deleted.")


async def find(request: AdminRequest, id: str, queue: str) -> tuple[str, MessageLook | None, list[Event]]:
    """The queue of a message, the message itself, and its history; looked up in `queue` first, then in all queues."""
    for query in (messages.MessageQuery(queue), messages.MessageQuery()):
        message: MessageLook | None = None
        events: list[Event] = []
        with suppress(MessageNotFound):
            message = await request.call(messages.get_message, query=query, id=id)
        with suppress(MessageNotFound):
            told = query if message is None else messages.MessageQuery(message.queue)
            events = (await request.call(messages.audit, query=told, id=id)).events
        if message is not None or events:
            return split_name(message.queue if message is not None else events[-1].queue)[0], message, events
    raise not_found(id)


def _here(request: AdminRequest) -> messages.MessageQuery:
    return messages.MessageQuery(request.path["queue"])


def _is_bodiless(message: MessageLook) -> bool:
    """A finished message whose queue keeps no payloads."""
    return message.state == "finished" and message.payload is None


class Shown(NamedTuple):
    kind: str
    size: int
    """Bytes, as stored."""
    text: str | None
    hex: str | None
    is_cut: bool


def _shown(message: MessageLook) -> Shown:
    data = _stored(message)
    if message.payload_base64 is not UNSET:
        text = _as_text(data)
        cut = len(data) > _SHOWN_HEX or len(text or "") > SHOWN
        return Shown("bytes", len(data), None if text is None else text[:SHOWN], _hex(data[:_SHOWN_HEX]), cut)
    written = message.payload if isinstance(message.payload, str) else pretty(message.payload)
    kind = "text" if isinstance(message.payload, str) else "JSON"
    return Shown(kind, len(data), visible(written[:SHOWN]), None, len(written) > SHOWN)


def _whole(message: MessageLook) -> tuple[bytes, str]:
    """The contents of the download, and its file extension."""
    if message.payload_base64 is not UNSET:
        return _stored(message), "bin"
    if isinstance(message.payload, str):
        return message.payload.encode(), "txt"
    return pretty(message.payload).encode(), "json"


def _stored(message: MessageLook) -> bytes:
    if message.payload_base64 is not UNSET:
        return base64.b64decode(message.payload_base64)
    return msgspec.json.encode(message.payload)


def _as_text(data: bytes) -> str | None:
    """Bytes that are valid text are shown as text too."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    plain = text.replace("\r\n", "\n")
    return plain if plain and visible(plain) == plain else None


def _hex(data: bytes) -> str:
    lines = []
    for start in range(0, len(data), _LINE):
        piece = data[start : start + _LINE]
        letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
        lines.append(f"{start:06x}  {piece.hex(' '):<{3 * _LINE - 1}}  {letters}")
    return "\n".join(lines)
