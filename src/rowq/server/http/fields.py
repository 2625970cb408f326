"""Fields of a body that its decoder does not report well: duplicates, and mistyped names.

A decoder silently takes the last of two fields of one name. To detect this, the decoded body is encoded again, without defaults: if that
has as many quotation marks as the original, no field was dropped. Otherwise the names are counted. Names are quoted, payloads and headers
are encoded unchanged, and the one escape that could hide a quotation mark or spell a name (`\\u0022`) is counted too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args

import msgspec
from msgspec import Raw, Struct

from rowq.errors import InvalidArgument
from rowq.wire import MessageBody, SendBody

_PLAIN = len('{"payload":,"id":""}')
"""A message with fewer bytes than this around its payload has no room for a duplicate."""
_names_in = re.compile(rb'"([a-z0-9_]+)"\s*:').findall
_encode = msgspec.json.Encoder().encode
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")


class _Object(list[tuple[str, Any]]):
    """A JSON object with all of its fields, duplicates included."""


# Numbers stay text: Python refuses to convert a very long one.
_read_names = json.JSONDecoder(object_pairs_hook=_Object, parse_int=str, parse_float=str, strict=False).decode


def refuse_duplicate_fields(data: bytes, found: object) -> None:
    if type(found) is SendBody and type(found.payload) is Raw and len(data) - len(found.payload) < _PLAIN:
        return
    again = _encode(found)
    if data.count(b'"') == again.count(b'"') and data.count(b"\\u") == again.count(b"\\u"):
        return
    names = _names_in(data)
    if (len(set(names)) < len(names) or b"\\u" in data) and (duplicate := _find_duplicate(data, found)) is not None:
        raise InvalidArgument(f"the body names the field `{duplicate}` twice: give it once")


def _find_duplicate(data: bytes, found: object) -> str | None:
    try:
        body = _read_names(data.decode(errors="replace"))
    except (ValueError, RecursionError):  # in an unknown field, which the decoder has skipped
        return None
    if isinstance(found, SendBody) and found.messages:
        inner = (_duplicate_among(message, MessageBody) for message in dict(body)["messages"])
        return _duplicate_among(body, SendBody) or next(filter(None, inner), None)
    return _duplicate_among(body, type(found))


def _duplicate_among(fields: object, kind: type) -> str | None:
    names: tuple[str, ...] = getattr(kind, "__struct_encode_fields__", ())
    counts = Counter(name for name, _ in fields if name in names) if isinstance(fields, _Object) else {}
    return next((name for name, count in counts.items() if count > 1), None)


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
