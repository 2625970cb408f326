"""Requests and answers of plugin-keyval's queue. Times and durations are milliseconds."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from rowq.errors import InvalidArgument, RowqError
from rowq.model.duration import LONGEST_MS
from rowq.model.message import KvEntry, KvKey, Message
from rowq.model.value import KeyPart, Note
from rowq.server.api.events import one_line
from rowq.server.http import answers
from rowq.server.http.errors import to_answer
from rowq.server.http.reading import decode
from rowq.store.dialect import Row
from rowq.wire import Problem

Delay = Annotated[float, Meta(ge=0, le=LONGEST_MS)]
"""A float, since JavaScript clients may send 999.5; it is rounded."""

_REASONS = {
    "max_attempts_reached": "Max attempts exceeded",
    "message_expired": "Message expired",
    "deadline_exceeded": "Deadline exceeded",
    "rejected": "Rejected",
}
"""The error text of a dead letter without an error of its own."""


class MessageOptions(Struct, rename="camel", forbid_unknown_fields=True):
    delay: Delay | None = None
    backoff_schedule: Annotated[list[Delay], Meta(max_length=1_000)] | None = None
    keys_if_undelivered: Annotated[list[Annotated[list[KeyPart], Meta(min_length=1, max_length=20)]], Meta(max_length=1_000)] | None = None
    priority: Annotated[int, Meta(gt=-(1 << 31), lt=1 << 31)] | None = None


class NewMessage(Struct, forbid_unknown_fields=True):
    value: Raw
    options: MessageOptions | None = None


class Settlement(Struct):
    """Other fields are ignored: a client may send back the whole message."""

    id: Annotated[str, Meta(min_length=1)]
    receipt: str | None = None
    error: Note | None = None


class Page(Struct):
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    offset: Annotated[int, Meta(ge=0, lt=1 << 53)] = 0


class Enqueued(Struct, kw_only=True):
    ok: bool = True
    id: str


class Requeued(Struct, kw_only=True, rename="camel"):
    ok: bool = True
    new_id: str


class MessageLook(Struct):
    id: str
    value: Any
    attempts: int
    receipt: str


class Polled(Struct):
    message: MessageLook | None


class Counts(Struct):
    pending: int
    processing: int
    dlq: int
    total: int


class DeadLetter(Struct, rename="camel"):
    id: str
    original_id: str
    value: Any
    attempts: int
    error_message: str
    original_created_at: int
    failed_at: int | None


class Purged(Struct, rename="camel"):
    deleted_count: int


class Entry(Struct):
    key: list[KeyPart]
    value: Any
    versionstamp: str
    """The time of writing; it grows with every millisecond."""


_MESSAGE = msgspec.json.Decoder(NewMessage)
_SETTLEMENT = msgspec.json.Decoder(Settlement)
_PROBLEM = msgspec.json.Decoder(Problem)
_PARTS: msgspec.json.Decoder[KvKey] = msgspec.json.Decoder(list[str | int])


def read_message(body: bytes) -> NewMessage:
    return decode(body, _MESSAGE)


def read_settlement(body: bytes) -> Settlement:
    return decode(body, _SETTLEMENT)


def read_prefixes(query: dict[str, str]) -> list[KvKey]:
    """Parts separated by /, or a JSON list of parts. A part of digits may mean a number or text, so both are searched."""
    text = query.get("prefix", "")
    if text.startswith("["):
        try:
            return [_PARTS.decode(text)]
        except msgspec.MsgspecError as error:
            raise InvalidArgument(f"the prefix cannot be read: {error}") from None
    parts = text.strip("/").split("/") if text else []
    numbers = [int(part) if part.isascii() and part.isdigit() and len(part) < 16 else part for part in parts]
    return [parts] if numbers == parts else [parts, numbers]


def to_message(row: Row) -> MessageLook:
    """Bytes, which only another API can have sent, are given in base64."""
    body = answers.delivery(row)
    value = body.payload_base64 if body.payload is msgspec.UNSET else body.payload
    return MessageLook(body.id, value, body.attempt, body.receipt)


def message_event(row: Row) -> bytes:
    message = to_message(row)
    return b"event: message\nid: %s\ndata: %s\n\n" % (message.id.encode(), one_line(msgspec.json.encode(message)))


def to_dead(message: Message) -> DeadLetter:
    return DeadLetter(
        id=message.id,
        original_id=message.id,
        value=_plain(message.payload),
        attempts=message.attempts,
        error_message=message.error or _REASONS.get(message.reason or "", message.reason or ""),
        original_created_at=message.sent_at,
        failed_at=message.died_at,
    )


def to_entry(entry: KvEntry) -> Entry:
    return Entry(entry.key, _plain(entry.value), f"{entry.written_at:020x}")


def problem(body: bytes) -> bytes:
    """Converts rowq's error body to this API's."""
    return msgspec.json.encode({"error": _PROBLEM.decode(body).error})


def problem_event(error: RowqError) -> bytes:
    return b"event: problem\ndata: %s\n\n" % problem(to_answer(error)[1])


def _plain(payload: Any) -> Any:
    return base64.b64encode(payload).decode() if isinstance(payload, bytes) else payload
