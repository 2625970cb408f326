"""Results as JSON: one line each, safe to show in a terminal."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

_TERMINAL_CONTROLS = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def json_line(value: Any) -> bytes:
    """One line of JSON without terminal control characters. Everything that is escaped can only occur inside a string."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        # A file name may not be valid text; what JSON cannot express becomes question marks.
        encoded = json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode(errors="replace")
    if not encoded.isascii():
        encoded = _TERMINAL_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", encoded.decode()).encode()
    return encoded + b"\n"


def fields(value: msgspec.Struct) -> dict[str, Any]:
    """A result as JSON shows it: its fields by name, and `payload_base64` for a payload of bytes."""
    shown = msgspec.structs.asdict(value)
    if isinstance(shown.get("payload"), bytes):
        shown["payload_base64"] = shown.pop("payload")
    return shown
