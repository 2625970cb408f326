"""How a payload is shown: as indented JSON, as text, or byte by byte; long ones are cut."""

from __future__ import annotations

import base64
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from rowq.server.admin.rendering import pretty, visible
from rowq.wire import MessageLook

SHOWN = 64 << 10
_SHOWN_HEX = 4 << 10
_LINE = 16


class Shown(NamedTuple):
    kind: str
    size: int
    """Bytes, as stored."""
    text: str | None
    hex: str | None
    is_cut: bool


def shown(message: MessageLook) -> Shown:
    data = stored(message)
    if message.payload_base64 is not UNSET:
        text = _as_text(data)
        cut = len(data) > _SHOWN_HEX or len(text or "") > SHOWN
        return Shown("bytes", len(data), None if text is None else text[:SHOWN], _hex(data[:_SHOWN_HEX]), cut)
    written = message.payload if isinstance(message.payload, str) else pretty(message.payload)
    kind = "text" if isinstance(message.payload, str) else "JSON"
    return Shown(kind, len(data), visible(written[:SHOWN]), None, len(written) > SHOWN)


def whole(message: MessageLook) -> tuple[bytes, str]:
    """The contents of the download, and its file extension."""
    if message.payload_base64 is not UNSET:
        return stored(message), "bin"
    if isinstance(message.payload, str):
        return message.payload.encode(), "txt"
    return pretty(message.payload).encode(), "json"


def stored(message: MessageLook) -> bytes:
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
