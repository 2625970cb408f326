"""From user input to what the store keeps: a draft is checked and encoded once, here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from rowq.errors import InvalidArgument, RowqError
from rowq.model.duration import LONGEST_MS, moment_ms, to_ms
from rowq.model.message import Draft, Payload, SendOptions
from rowq.model.payload import encode
from rowq.model.queue import DeliveryMode
from rowq.model.retry import Backoff, Delays, Exponential, Linear, check_backoff
from rowq.model.text import is_text

MAX_HEADER_BYTES = 32 * 1024
MAX_SEND = 100_000
MAX_RECEIVE = 1_000
MAX_KV_KEYS = 1000
MAX_KV_PARTS = 20
MAX_NAME = 255
MAX_PRIORITY = 1 << 31
_OWN_ID = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._:-]{1,128}")

KEYED, GROUPED, HAS_DEADLINE, HAS_OWN_ID, HAS_KV_KEYS = 1, 2, 4, 8, 16
"""Marks travel with a message's lease, so that settling a plain one reads nothing else."""

MODE_MARKS: dict[DeliveryMode, int] = {"at_most_once": 32, "at_least_once": 64}
"""Marks of a lease alone: the consumer asked for that mode, whatever the queue's setting."""
HARMLESS = sum(MODE_MARKS.values())
"""Marks that require no further work on a message."""


class Prepared(msgspec.Struct, gc=False):
    """A checked message. The fields up to `marks` are in the order of the columns of `rowq_messages`."""

    queue: str
    format: int
    payload: bytes
    headers: bytes | None = None
    message_key: str | None = None
    group_key: str | None = None
    priority: int = 0
    delay_ms: int = 0
    """Below 0 it stands for a moment, -at_ms, which becomes a delay when the message is written, by the clock of that time."""
    ttl_ms: int | None = None
    deadline_ms: int | None = None
    max_attempts: int | None = None
    backoff: bytes | None = None
    kv_keys: bytes | None = None
    own_id: str | None = None
    marks: int = 0


PREPARED_COLUMNS = Prepared.__struct_fields__


def is_plain(message: Prepared) -> bool:
    """Ready at once, without extras: most messages are plain, and are written in bulk."""
    return (
        message.marks == 0
        and message.delay_ms == 0
        and message.ttl_ms is None
        and message.headers is None
        and message.max_attempts is None
        and message.backoff is None
    )


def prepare(queue: str, draft: Draft) -> Prepared:
    format, data = encode(draft.payload)
    prepared = Prepared(queue, format, data, priority=_priority(draft.priority))
    if draft.headers:
        prepared.headers = _headers(draft.headers)
    if draft.at is not None:
        prepared.delay_ms = -_at_ms(draft)
    elif draft.delay != 0:
        prepared.delay_ms = to_ms(draft.delay, "delay")
    if draft.ttl is not None:
        prepared.ttl_ms = to_ms(draft.ttl, "ttl")
    if draft.max_attempts is not None:
        prepared.max_attempts = _max_attempts(draft.max_attempts)
    if draft.backoff is not None:
        prepared.backoff = msgspec.json.encode(to_backoff(draft.backoff))
    _prepare_marked(prepared, draft)
    return prepared


def prepare_one(queue: str, payload: Payload, options: SendOptions) -> Prepared:
    return prepare(queue, Draft(payload, **options)) if options else Prepared(queue, *encode(payload))


def prepare_many(queue: str, payloads: Iterable[Payload | Draft], options: SendOptions) -> list[Prepared]:
    """The options apply to payloads; a draft has its own, and a prepared message stays as it is."""
    prepared: list[Prepared] = []
    for payload in payloads:
        try:
            if isinstance(payload, Draft):
                prepared.append(prepare(queue, payload))
            elif type(payload) is Prepared:
                prepared.append(payload)
            else:
                prepared.append(prepare_one(queue, payload, options))
        except RowqError as error:
            raise type(error)(f"position {len(prepared)}: {error}") from None
    return prepared


def with_delay(message: Prepared, now: int) -> Prepared:
    """As it is written: with a delay in place of a moment; 0 for a moment in the past."""
    return message if message.delay_ms >= 0 else msgspec.structs.replace(message, delay_ms=max(0, -message.delay_ms - now))


def check_moment(message: Prepared, now: int) -> None:
    """A moment may be as far ahead as a delay may last."""
    if -message.delay_ms > now + LONGEST_MS:
        raise InvalidArgument(f"at must be within {LONGEST_MS // 86_400_000} days from now: this moment lies further ahead")


def to_backoff(value: Backoff | Sequence[Any]) -> Backoff:
    """A policy, or a list of seconds. An unreadable one would make its whole queue impossible to receive from."""
    if isinstance(value, Delays | Linear | Exponential):
        return check_backoff(value)
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidArgument("backoff must be a list of seconds, or rowq.linear(…) or rowq.exponential(…)")
    return check_backoff(Delays(tuple(to_ms(delay, "backoff") for delay in value)))


def to_kv_key(value: object) -> list[str | int]:
    """A key for an undelivered payload: one part, or a path of parts."""
    parts = [value] if isinstance(value, str) else list(value) if isinstance(value, Sequence) and not isinstance(value, bytes) else []
    if not 1 <= len(parts) <= MAX_KV_PARTS or not all(_is_kv_part(part) for part in parts):
        raise InvalidArgument(f"a key is a text, or a list of 1 to {MAX_KV_PARTS} texts and whole numbers, not {value!r}")
    return parts


def _prepare_marked(prepared: Prepared, draft: Draft) -> None:
    if draft.key is not None:
        prepared.message_key = _name(draft.key, "key")
        prepared.marks |= KEYED
    if draft.group is not None:
        prepared.group_key = _name(draft.group, "group")
        prepared.marks |= GROUPED
    if draft.deadline is not None:
        prepared.deadline_ms = to_ms(draft.deadline, "deadline", least=1)
        prepared.marks |= HAS_DEADLINE
    if draft.id is not None:
        prepared.own_id = _own_id(draft.id)
        prepared.marks |= HAS_OWN_ID
    if draft.keys_if_undelivered:
        prepared.kv_keys = _kv_keys(draft.keys_if_undelivered)
        prepared.marks |= HAS_KV_KEYS


def _at_ms(draft: Draft) -> int:
    if draft.delay:
        raise InvalidArgument("a message has a delay or a moment at which it becomes due: give delay or at, not both")
    return moment_ms(draft.at, "at")


def _priority(value: object) -> int:
    if type(value) is not int or not -MAX_PRIORITY < value < MAX_PRIORITY:
        raise InvalidArgument(f"priority must be a whole number between -2147483647 and 2147483647, not {value!r}")
    return value


def _max_attempts(value: object) -> int:
    if type(value) is not int or not 0 <= value <= LONGEST_MS:
        raise InvalidArgument(f"max_attempts must be a whole number, 0 for no limit, not {value!r}")
    return value


def _name(value: object, what: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME or not is_text(value):
        raise InvalidArgument(f"{what} must be text of 1 to {MAX_NAME} characters, not {value!r}")
    return value


def _own_id(value: object) -> str:
    if not isinstance(value, str) or not _OWN_ID.fullmatch(value):
        raise InvalidArgument(f"id must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -, and more than . or .., not {value!r}")
    return value


def _headers(headers: object) -> bytes:
    if not isinstance(headers, Mapping) or not all(isinstance(k, str) and isinstance(v, str) for k, v in headers.items()):
        raise InvalidArgument("headers must map text to text")
    if not all(is_text(k) and is_text(v) for k, v in headers.items()):
        raise InvalidArgument("headers must be text that UTF-8 can encode")
    data = msgspec.json.encode(dict(headers))
    if len(data) > MAX_HEADER_BYTES:
        raise InvalidArgument(f"headers take {len(data)} bytes, the limit is {MAX_HEADER_BYTES}: put large values into the payload")
    return data


def _kv_keys(keys: object) -> bytes:
    if isinstance(keys, str | bytes) or not isinstance(keys, Sequence) or len(keys) > MAX_KV_KEYS:
        raise InvalidArgument(f"keys_if_undelivered must be a list of at most {MAX_KV_KEYS} keys")
    return msgspec.json.encode([to_kv_key(key) for key in keys])


def _is_kv_part(part: object) -> bool:
    if isinstance(part, str):
        return 1 <= len(part) <= 1024 and is_text(part)
    return type(part) is int and abs(part) < 1 << 53
