"""Reading requests: bodies and query strings as the types of wire.py, with limits on both."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from rowq.errors import InvalidArgument
from rowq.server.http.asgi import Receive
from rowq.server.http.errors import HttpError
from rowq.server.http.fields import meant_field, refuse_duplicate_fields
from rowq.server.http.patience import ClientGone, Stopwatch

T = TypeVar("T")

_LONE_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_MAX_QUERY_FIELDS = 100


async def read_body(receive: Receive, limit: int, stopwatch: Stopwatch) -> bytes:
    """Usually the whole body has already arrived."""
    message = await stopwatch.time(receive())
    if message["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        body = await _read_rest(body, receive, limit, stopwatch)
    if len(body) > limit:
        raise _too_large(limit)
    return body


async def _read_rest(start: bytes, receive: Receive, limit: int, stopwatch: Stopwatch) -> bytes:
    pieces, size, more = [start], len(start), True

    async def rest() -> None:
        nonlocal size, more
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            piece = message.get("body", b"")
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            pieces.append(piece)
            more = message.get("more_body", False)

    await stopwatch.time(rest())
    return b"".join(pieces)


def decode(data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        found = decoder.decode(data)
    except _UNREADABLE as error:
        sentence = _lone_surrogate(data, error) or meant_field(error, decoder.type) or _sentence(error)
        raise InvalidArgument(f"the body cannot be read: {sentence}") from None
    refuse_duplicate_fields(data, found)
    return found


def split_query(query: bytes) -> list[tuple[str, str]]:
    """Raises ValueError."""
    return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_QUERY_FIELDS)


def read_query(query: bytes, kind: type[T], lists: frozenset[str] = frozenset()) -> T:
    """A query string as a type; the fields in `lists` may be given more than once."""
    fields: dict[str, Any] = {}
    try:
        for name, value in split_query(query):
            if name in lists:
                fields.setdefault(name, []).append(value)
            elif name in fields:
                raise InvalidArgument(f"the query names {name!r} twice")
            else:
                fields[name] = value
        fields.pop("token", None)  # read by authentication
        found = msgspec.convert(fields, kind, strict=False)
        if emptied := [name for name in fields if getattr(found, name) is None]:
            raise InvalidArgument(f"the query has {fields[emptied[0]]!r} for {emptied[0]}: omit the parameter instead")
        return found
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidArgument(f"the query cannot be read: {_sentence(error)}") from None


def _too_large(limit: int) -> HttpError:
    return HttpError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", f"the body is larger than {limit} bytes: send fewer messages at once"
    )


def _lone_surrogate(data: bytes, error: Exception) -> str | None:
    """A clearer error for a lone surrogate, which the decoder reports as truncated text."""
    lone = _LONE_SURROGATE.search(data) if "truncated" in str(error) or "hex escape" in str(error) else None
    return None if lone is None else f"{lone[0].decode()} is half of a surrogate pair, and the other half is missing"


def _sentence(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
