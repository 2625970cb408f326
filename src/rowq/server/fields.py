"""Fields of a body that its decoder passes over: one that is named twice, and one whose name is mistyped.

A decoder takes the last of two fields without a word. Whether there are two is seen by counting names, in what is left of a message
without its payload: that is short, and a payload may have the same names. Only where a name is there twice, as in headers, is it parsed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Raw, Struct

from rowq.errors import InvalidArgument
from rowq.wire import MessageBody, SendBody

_PLAIN = len('{"payload":,"id":""}')
"""A message with no more than that beside its payload has no room for a second field."""
_SMALL = 16 * 1024
"""In a larger batch, which a program has written, only the payloads are counted: each message has one."""
_names_in = re.compile(rb'"([a-z0-9_]+)"\s*:').findall
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")


class _Messages(Struct):
    messages: list[Raw]


_messages = msgspec.json.Decoder(_Messages)


def refuse_twice_named(data: bytes, found: object) -> None:
    if type(found) is not SendBody:
        _check(data, type(found))
    elif found.messages is UNSET:
        _check_message(data, found)
    elif len(data) <= _SMALL or data.count(b'"payload') > len(found.messages):
        raws = _messages.decode(data).messages
        _check(_without(data, b'"messages"', [bytes(raw) for raw in raws]), SendBody)
        for raw, message in zip(raws, found.messages, strict=True):
            _check_message(bytes(raw), message)


def _check_message(data: bytes, message: MessageBody) -> None:
    payload = message.payload
    if payload is UNSET:
        _check(data, MessageBody)
    elif len(data) - len(payload) >= _PLAIN:
        _check(_without(data, b'"payload"', [bytes(payload)]), MessageBody)


def _without(data: bytes, name: bytes, values: list[bytes]) -> bytes:
    """The rest, still JSON: without the values that stand behind the name, one after another."""
    kept, end = list[bytes](), max(0, data.find(name))
    kept.append(data[:end])
    for value in values:
        start = data.find(value, end)
        kept.append(data[end:start])
        end = start + len(value)
    return kept[0] + b"null".join([*kept[1:], data[end:]])


def _check(envelope: bytes, kind: type) -> None:
    found = _names_in(envelope)
    if len(set(found)) == len(found) and b"\\" not in envelope:  # a name may be written with escapes
        return
    if (twice := _find_twice(envelope, kind)) is not None:
        raise InvalidArgument(f"the body names the field `{twice}` twice: which one holds?")


def _find_twice(envelope: bytes, kind: type) -> str | None:
    names: tuple[str, ...] = getattr(kind, "__struct_encode_fields__", ())
    try:
        fields: list[tuple[str, Any]] = json.loads(envelope, object_pairs_hook=_Object)
    except (ValueError, RecursionError):
        return None
    counts = Counter(name for name, _ in fields if name in names)
    return next((name for name, count in counts.items() if count > 1), None)


class _Object(list[tuple[str, Any]]):
    """An object of JSON with all of its fields."""


def meant_field(error: Exception, kind: Any) -> str | None:
    """What a decoder says of a field that it does not know, with the one that may have been meant."""
    unknown = _UNKNOWN.search(str(error))
    alike = _alike(unknown[1], _all_names(kind)) if unknown else []
    return f"{error}; did you mean `{alike[0]}`?" if alike else None


def _alike(name: str, known: list[str]) -> list[str]:
    """In Python `at` and `delay` go without a unit."""
    return [f"{name}_ms"] if f"{name}_ms" in known else get_close_matches(name, known, n=1)


@cache
def _all_names(kind: Any) -> list[str]:
    """The fields of a type, and of the types of its fields."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        inner = [name for field in msgspec.structs.fields(kind) for name in _all_names(field.type)]
        return [*kind.__struct_encode_fields__, *inner]
    return [name for argument in get_args(kind) for name in _all_names(argument)]
