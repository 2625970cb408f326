"""Payloads to and from bytes. A value that would not be received unchanged is refused."""

from __future__ import annotations

import base64
import binascii
from enum import IntEnum
from math import isfinite
from typing import Any

import msgspec

from rowq.errors import InvalidArgument

_encode = msgspec.json.Encoder().encode
decode_json = msgspec.json.Decoder().decode
MAX_DEPTH = 200
_SCALARS = frozenset({str, int, bool, type(None)})
_CONTAINERS = frozenset({dict, list, tuple})


class Format(IntEnum):
    BYTES = 0
    JSON = 1


def encode(payload: object) -> tuple[int, bytes]:
    """(format, bytes) of `bytes` or of any JSON value; raises InvalidArgument for everything else."""
    if type(payload) is bytes:
        return 0, payload
    if type(payload) not in _SCALARS:
        _check(payload)
    try:
        return 1, _encode(payload)
    except (ValueError, TypeError, OverflowError, msgspec.MsgspecError) as error:
        raise InvalidArgument(f"this payload cannot be written as JSON: {error}") from None


def decode(format: int, data: bytes) -> Any:
    return decode_json(data) if format else data


def check_encoded(data: bytes) -> bytes:
    """JSON encoded elsewhere, kept unchanged: every reader must be able to read it."""
    try:
        value = decode_json(data)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidArgument(f"this payload cannot be read as JSON: {error}") from None
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        _check(value)
    return data


def _check(value: object, depth: int = 0) -> None:
    """The encoder would silently turn NaN into null, bytes and dates into text, and numeric keys into text.

    Values nested deeper than a reader's stack could not be received.
    """
    kind = type(value)
    if depth >= MAX_DEPTH and kind in _CONTAINERS:
        raise InvalidArgument(f"this payload is nested more than {MAX_DEPTH} levels deep, or contains itself")
    if kind is dict:
        for key, item in value.items():  # type: ignore[attr-defined]  # kind is dict
            if type(key) is not str:
                raise InvalidArgument(f"a JSON object has text as keys, not {type(key).__name__}: {key!r}")
            if type(item) not in _SCALARS:
                _check(item, depth + 1)
    elif kind is list or kind is tuple:
        for item in value:  # type: ignore[attr-defined]  # kind is list or tuple
            if type(item) not in _SCALARS:
                _check(item, depth + 1)
    elif kind is float:
        if not isfinite(value):  # type: ignore[arg-type]  # kind is float
            raise InvalidArgument(f"JSON has no {value!r}: send None or a text instead")
    elif kind not in _SCALARS:
        raise InvalidArgument(
            f"a payload is bytes or JSON (dict, list, str, int, float, bool, None), not {kind.__name__}: convert it first"
        )


def from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument("payload_base64 is not base64") from None
