"""Fields of a body that its decoder passes over: one that is named twice, and one whose name is mistyped.

A decoder silently takes the last of two fields of one name. The bodies of the hot routes are encoded again without their defaults: as many
quotation marks as arrived mean that no field was dropped. Where the counts differ, and for all other bodies, names are counted in what is
left of a message without its payload, and only where a name is there twice, as in headers, is that parsed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Raw, Struct

from rowq.errors import InvalidArgument
from rowq.wire import AckBody, ExtendBody, MessageBody, NackBody, ReceiveBody, RejectBody, RescheduleBody, SendBody

REENCODED = frozenset({AckBody, ExtendBody, NackBody, ReceiveBody, RejectBody, RescheduleBody, SendBody})
"""Encoding them adds nothing: their defaults are left out, and the one nested type that writes its own is looked for by name."""
_BACKOFF = b'"backoff_ms"'
_PLAIN = len('{"payload":,"id":""}')
"""A message with no more than that beside its payload has no room for a second field."""
_TWO = 2
"""Every field has a colon, however its name is written."""
_names_in = re.compile(rb'"([a-z0-9_]+)"\s*:').findall
_encode = msgspec.json.Encoder().encode
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")


class _Messages(Struct):
    messages: list[Raw]


class _Object(list[tuple[str, Any]]):
    """An object of JSON with all of its fields."""


_messages = msgspec.json.Decoder(_Messages)
# Numbers stay text: Python refuses to convert a very long one.
_read_names = json.JSONDecoder(object_pairs_hook=_Object, parse_int=str, parse_float=str, strict=False).decode


def refuse_duplicate_fields(data: bytes, found: object) -> None:
    if data.count(b":") < _TWO:
        return
    kind = type(found)
    if isinstance(found, SendBody) and type(found.payload) is Raw and len(data) - len(found.payload) < _PLAIN:
        return
    if kind in REENCODED and _BACKOFF not in data and _is_whole(data, found):
        return
    if not isinstance(found, SendBody):
        duplicate = _find_duplicate(data, data, kind)
    elif found.messages is UNSET:
        duplicate = _find_in_message(data, found)
    else:
        raws = [bytes(raw) for raw in _messages.decode(data).messages]
        inside = map(_find_in_message, raws, found.messages)
        duplicate = _find_duplicate(_without(data, b'"messages"', raws), data, kind) or next(filter(None, inside), None)
    if duplicate is not None:
        raise InvalidArgument(f"the body names the field `{duplicate}` twice: give it once")


def _is_whole(data: bytes, found: object) -> bool:
    """Names are quoted. The one escape that could hide a quotation mark, or spell a name, is counted as well."""
    try:
        again = _encode(found)
    except RecursionError:
        return False
    return data.count(b'"') == again.count(b'"') and data.count(b"\\u") == again.count(b"\\u")


def _find_in_message(data: bytes, message: MessageBody) -> str | None:
    payload = message.payload
    if payload is UNSET:
        return _find_duplicate(data, data, MessageBody)
    if len(data) - len(payload) < _PLAIN:
        return None
    return _find_duplicate(_without(data, b'"payload"', [bytes(payload)]), data, MessageBody)


def _without(data: bytes, name: bytes, values: Sequence[bytes]) -> bytes:
    """The rest, without the values that follow the name one after another."""
    kept, end = list[bytes](), max(0, data.find(name))
    kept.append(data[:end])
    for value in values:
        start = data.find(value, end)
        kept.append(data[end:start])
        end = start + len(value)
    return kept[0] + b"null".join([*kept[1:], data[end:]])


def _find_duplicate(rest: bytes, data: bytes, kind: type) -> str | None:
    names = _names_in(rest)
    if len(set(names)) == len(names) and b"\\u" not in rest:
        return None
    for text in (rest, data):  # a field that is there twice may have had a part of its first value taken out
        try:
            fields = _read_names(text.decode(errors="replace"))
        except (ValueError, RecursionError):
            continue
        counts = Counter(name for name, _ in fields if name in _field_names(kind)) if isinstance(fields, _Object) else {}
        return next((name for name, count in counts.items() if count > 1), None)
    return None


def _field_names(kind: type) -> tuple[str, ...]:
    return getattr(kind, "__struct_encode_fields__", ())


def meant_field(error: Exception, kind: Any) -> str | None:
    """A decoder's error about an unknown field, with a suggestion."""
    unknown = _UNKNOWN.search(str(error))
    alike = _alike(unknown[1], _all_names(kind)) if unknown else []
    return f"{error}; did you mean `{alike[0]}`?" if alike else None


def _alike(name: str, known: list[str]) -> list[str]:
    """Python's `at` and `delay` have no unit suffix."""
    return [f"{name}_ms"] if f"{name}_ms" in known else get_close_matches(name, known, n=1)


@cache
def _all_names(kind: Any) -> list[str]:
    """The fields of a type, and of the types of its fields."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        inner = [name for field in msgspec.structs.fields(kind) for name in _all_names(field.type)]
        return [*kind.__struct_encode_fields__, *inner]
    return [name for argument in get_args(kind) for name in _all_names(argument)]
