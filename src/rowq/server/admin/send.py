"""Sending a message by hand: the form, its values, and their errors. A dead letter is edited in the same form and sent anew."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import UNSET, Raw
from starlette.responses import Response

from rowq.errors import IdTaken, InvalidArgument, MessageNotFound, PayloadRejected, PayloadTooLarge, QueueFull, RowqError
from rowq.model.duration import to_ms
from rowq.model.payload import check_encoded
from rowq.model.queue import check_own_name
from rowq.model.settings_text import read_backoff, read_duration, write_duration, write_setting
from rowq.server.admin.dead import queue_of
from rowq.server.admin.rendering import pretty
from rowq.server.admin.request import AdminRequest, details_url
from rowq.server.api import dead, messages
from rowq.server.http.errors import HttpError, status_of
from rowq.wire import MessageBody, MessageLook, RedriveBody, of_backoff, to_backoff

Typed = dict[str, str]
"""The values of the form, by field name."""
Problems = dict[str, str]
"""Errors, by field; under "" those of the whole form."""

KINDS = {"json": "JSON", "text": "Text", "base64": "Bytes, in base64"}
_MOST_EDITED = 4 << 20
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that do not survive a form: browsers change line ends and drop control characters."""
_AT = re.compile(r"\$\.(\w+)")


async def show_form(request: AdminRequest) -> Response:
    queue = check_own_name(request.path["queue"])
    request.identity.check("send", queue)
    return show(request, queue, {"kind": "json", "key": request.asked("key"), "group": request.asked("group")})


async def send(request: AdminRequest) -> Response:
    queue = check_own_name(request.path["queue"])
    found = await send_typed(request, queue)
    if isinstance(found, Response):
        return found
    return request.go(details_url(queue, found), "The message was sent.")


async def show_resend(request: AdminRequest) -> Response:
    queue = queue_of(request)
    request.identity.check("send", queue)
    return show(request, queue, typed_of(await _letter(request, queue)), **_options(queue))


async def resend(request: AdminRequest) -> Response:
    queue = queue_of(request)
    request.identity.check("send", queue)
    await _letter(request, queue)
    sent = await send_typed(request, queue, **_options(queue))
    if isinstance(sent, Response):
        return sent
    notice = "Sent as a new message."
    if request.given("removal"):
        notice += await _delete(request, queue)
    return request.go(details_url(queue, sent), notice)


async def send_typed(request: AdminRequest, queue: str, **options: Any) -> str | Response:
    """The id of the message; or the form again, with its errors. The options are those of `show`."""
    request.identity.check("send", queue)
    typed = {name: request.given(name).replace("\r\n", "\n") for name in ("kind", *FIELDS)}
    body, problems = read(typed)
    if body is None:
        return show(request, queue, typed, problems, **options)
    try:
        return await request.send(queue, body)
    except (InvalidArgument, QueueFull, IdTaken) as error:
        return show(request, queue, typed, {_blamed(error): str(error)}, status=int(status_of(error)), **options)


def show(
    request: AdminRequest,
    queue: str,
    typed: Typed,
    problems: Problems | None = None,
    *,
    title: str = "Send a message",
    label: str = "Send",
    back: str = "",
    also: tuple[str, str] | None = None,
    status: int = 400,
) -> Response:
    """The form, which posts to its own address. `also`: the name and label of one more checkbox."""
    return request.show(
        "queue/send.html",
        status=status if problems else 200,
        queue=queue,
        typed={"kind": "json", **dict.fromkeys(FIELDS, ""), **typed},
        problems=problems or {},
        kinds=KINDS,
        heading=title,
        label=label,
        back=back or f"/queue/{queue}/",
        also=also,
        is_ticked=bool(also and request.given(also[0])),
    )


def typed_of(message: MessageLook) -> Typed:
    """A message as form values."""
    kind, payload = _written(message)
    if len(payload) > _MOST_EDITED:
        raise InvalidArgument(f"the payload is larger than {_MOST_EDITED >> 20} MB, which a form cannot hold: redrive the message as it is")
    return {
        "kind": kind,
        "payload": payload,
        "headers": _write_headers(message.headers),
        "key": message.key or "",
        "group": message.group or "",
        "priority": str(message.priority or ""),
        "ttl": "" if message.ttl_ms is None else write_duration(message.ttl_ms),
        "deadline": "" if message.deadline is None else write_duration(max(0, message.deadline - message.sent_at)),
        "max_attempts": "" if message.max_attempts is None else str(message.max_attempts),
        "backoff": write_setting("backoff", to_backoff(message.backoff_ms)),
        "keys_if_undelivered": "" if message.keys_if_undelivered is None else json.dumps(message.keys_if_undelivered, ensure_ascii=False),
    }


def read(typed: Typed) -> tuple[MessageBody | None, Problems]:
    """The message, or the errors by field."""
    fields: dict[str, Any] = {}
    problems: Problems = {}
    for name, (field, reader) in _READERS.items():
        text = typed.get(name, "")
        if text.strip():
            try:
                fields[field] = reader(text if reader is _keep else text.strip())
            except (InvalidArgument, msgspec.MsgspecError, ValueError, RecursionError) as error:
                problems[name] = str(error)
    try:
        fields |= _payload(typed.get("kind", "json"), typed.get("payload", ""))
    except InvalidArgument as error:
        problems["payload"] = str(error)
    if problems:
        return None, problems
    try:
        return msgspec.json.decode(msgspec.json.encode(fields), type=MessageBody), {}
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        return None, {_field_in(str(error)): str(error)}


def _payload(kind: str, text: str) -> dict[str, Any]:
    match kind:
        case "text":
            return {"payload": text}
        case "base64":
            try:
                data = base64.b64decode("".join(text.split()), validate=True)
            except (binascii.Error, ValueError):
                raise InvalidArgument("this is not base64") from None
            return {"payload_base64": base64.b64encode(data).decode()}
        case "json":
            if not text.strip():
                raise InvalidArgument('the payload is missing: write JSON, such as {"to": "ada"}, or choose text')
            return {"payload": Raw(msgspec.json.format(check_encoded(text.strip().encode("utf-8", "replace")), indent=-1))}
    raise InvalidArgument(f"{kind!r} is not a kind of payload; choose one of: {', '.join(KINDS)}")


def _written(message: MessageLook) -> tuple[str, str]:
    if message.payload_base64 is not UNSET:
        return "base64", message.payload_base64
    if isinstance(message.payload, str) and not _ODD.search(message.payload):
        return "text", message.payload
    return "json", pretty(message.payload)


def _read_headers(text: str) -> dict[str, str]:
    if text.startswith("{"):
        return msgspec.json.decode(text, type=dict[str, str])
    headers = {}
    for line in filter(None, map(str.strip, text.split("\n"))):
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise InvalidArgument(f"{line!r} is not a header: write one per line, as name: value")
        headers[name.strip()] = value.strip()
    return headers


def _write_headers(headers: dict[str, str]) -> str:
    lines = "\n".join(f"{name}: {value}" for name, value in headers.items())
    try:
        is_plain = not _ODD.search(lines) and _read_headers(lines) == headers
    except (InvalidArgument, msgspec.MsgspecError):
        is_plain = False
    return lines if is_plain else pretty(headers)


def _number(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
        raise InvalidArgument(f"{text!r} is not a whole number")
    return int(text)


def _milliseconds(text: str) -> int:
    return to_ms(read_duration(text), "this")


def _list(text: str) -> Any:
    found = msgspec.json.decode(text)
    if not isinstance(found, list):
        raise InvalidArgument('write a list of keys as JSON, such as [["customers", 42]]')
    return found


def _keep(text: str) -> str:
    return text


_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "headers": ("headers", _read_headers),
    "key": ("key", _keep),
    "group": ("group", _keep),
    "priority": ("priority", _number),
    "delay": ("delay_ms", _milliseconds),
    "ttl": ("ttl_ms", _milliseconds),
    "deadline": ("deadline_ms", _milliseconds),
    "max_attempts": ("max_attempts", _number),
    "backoff": ("backoff_ms", lambda text: of_backoff(read_backoff(text))),
    "keys_if_undelivered": ("keys_if_undelivered", _list),
    "id": ("id", _keep),
}
"""How each field except the payload is read, and its name in the API."""
FIELDS = ("payload", *_READERS)


def _field_in(sentence: str) -> str:
    """The form field that a decoder's error names."""
    found = _AT.search(sentence)
    return next((name for name, (field, _) in _READERS.items() if found and field == found[1]), "")


def _blamed(error: Exception) -> str:
    match error:
        case PayloadTooLarge() | PayloadRejected():
            return "payload"
        case IdTaken():
            return "id"
    return ""


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
