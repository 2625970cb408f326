"""The format of load and dump: one message per line, as JSON. The state in a line is for information; load sends messages as new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from rowq import Draft, InvalidArgument, Message
from rowq.model.duration import to_moment
from rowq.model.retry import Backoff, Delays, DelaysMs, Millis
from rowq.model.value import Moment


class Line(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The names are those of a message in HTTP; an unknown name is refused, since it would be lost silently."""

    queue: str | None = None
    id: str | None = None
    payload: Any = UNSET
    payload_base64: bytes | UnsetType = UNSET
    headers: dict[str, str] | None = None
    key: str | None = None
    group: str | None = None
    priority: int = 0
    delay_ms: Millis = 0
    at_ms: Moment | None = None
    ttl_ms: Millis | None = None
    deadline_ms: Millis | None = None
    max_attempts: int | None = None
    backoff_ms: DelaysMs | None = None
    backoff: Backoff | None = None
    keys_if_undelivered: list[str | list[str | int]] | None = None

    state: str | None = None
    attempts: int | UnsetType = UNSET
    sent_at: int | None = None
    reason: str | None = None
    error: str | None = None
    outcome: str | None = None


class Parcel(NamedTuple):
    """A draft and the queue that its line names, if any."""

    queue: str | None
    draft: Draft


Read = Callable[[bytes], Parcel]

_decoder = msgspec.json.Decoder(Line)


def reader(*, raw: bool = False, text: bool = False, keep_ids: bool = False, need_ids: bool = False) -> Read:
    """How to read a line: as `dump` writes it; with `raw`, as a payload in JSON; or as text."""
    if text:
        return lambda data: Parcel(None, Draft(_decode(data, _text)))
    if raw:
        return lambda data: Parcel(None, Draft(_decode(data, msgspec.json.decode)))
    return lambda data: _parcel(_decode(data, _decoder.decode), keep_ids, need_ids)


def to_line(message: Message, now: int) -> Line:
    """A message as a line. Future times become remaining durations."""
    backoff = message.backoff
    line = Line(
        queue=message.queue,
        id=message.id,
        headers=message.headers or None,
        key=message.key,
        group=message.group,
        priority=message.priority,
        delay_ms=max(0, message.due_at - now) if message.due_at is not None else 0,
        ttl_ms=max(1, message.expires_at - now) if message.expires_at is not None and message.reason is None else message.ttl_ms,
        deadline_ms=max(1, message.deadline - now) if message.deadline is not None else None,
        max_attempts=message.max_attempts,
        backoff_ms=backoff.delays_ms if isinstance(backoff, Delays) else None,
        backoff=None if isinstance(backoff, Delays) else backoff,
        keys_if_undelivered=list(message.keys_if_undelivered) if message.keys_if_undelivered else None,
        state=message.state,
        attempts=message.attempts,
        sent_at=message.sent_at,
        reason=message.reason,
        error=message.error,
        outcome=message.outcome,
    )
    if isinstance(message.payload, bytes):
        line.payload_base64 = message.payload
    else:
        line.payload = message.payload
    return line


def _parcel(line: Line, keep_ids: bool, need_ids: bool) -> Parcel:
    if (line.payload is UNSET) == (line.payload_base64 is UNSET):
        raise InvalidArgument("a line has either a payload or a payload_base64 (or is a payload itself: --raw)")
    if line.backoff is not None and line.backoff_ms is not None:
        raise InvalidArgument("a line has either backoff or backoff_ms")
    if need_ids and line.id is None:
        raise InvalidArgument("it has no id, so there is no way to tell whether it is already here: --skip-known is for lines with ids")
    draft = Draft(
        line.payload if line.payload_base64 is UNSET else line.payload_base64,
        key=line.key,
        group=line.group,
        priority=line.priority,
        delay=line.delay_ms / 1000,
        at=None if line.at_ms is None else to_moment(line.at_ms),
        ttl=_seconds(line.ttl_ms),
        deadline=_seconds(line.deadline_ms),
        max_attempts=line.max_attempts,
        backoff=line.backoff if line.backoff_ms is None else Delays(line.backoff_ms),
        headers=line.headers,
        keys_if_undelivered=line.keys_if_undelivered,
        id=line.id if keep_ids else None,
    )
    return Parcel(line.queue, draft)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _text(data: bytes) -> str:
    return data.removesuffix(b"\r").decode()


def _decode(data: bytes, decode: Callable[[bytes], Any]) -> Any:
    try:
        return decode(data)
    except UnicodeDecodeError:
        raise InvalidArgument("this is not UTF-8") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidArgument(str(error)) from None
