"""Results as text: ages, sizes and previews for people, JSON for programs; both safe to show in a terminal."""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from datetime import UTC, datetime
from typing import Any

import msgspec

_UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def visible(text: str) -> str:
    """The text with everything escaped that would move a cursor, change a colour or turn the writing direction."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spell(character) for character in text)


def _spell(character: str) -> str:
    # Joiners only hold emoji and Indic or Persian letters together; escaping them would break words.
    if character in _JOINERS or unicodedata.category(character) not in _UNSAFE:
        return character
    return character.encode("unicode_escape").decode("ascii")


def span(milliseconds: int) -> str:
    """Approximate duration, in the largest unit that gives a whole number: 3s, 5m, 2h, 7d."""
    for unit, size in _UNITS_MS:
        if milliseconds >= size:
            return f"{milliseconds // size}{unit}"
    return "0s"


def ago(at: int | None, now: int) -> str:
    """How long ago, or in how long: 5m ago, now, in 5m."""
    if at is None:
        return ""
    if abs(now - at) < 1000:
        return "now"
    return f"{span(now - at)} ago" if at <= now else f"in {span(at - now)}"


def moment(at: int, now: int) -> str:
    """A time as date and distance from now."""
    written = datetime.fromtimestamp(at / 1000, UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
    return f"{written} ({ago(at, now)})"


def size(count: int) -> str:
    """A size such as 1.2 KB."""
    amount = float(count)
    for unit in ("B", "KB", "MB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GB"


def counted(count: int, noun: str) -> str:
    """1 message, 2 messages, 10,000 messages."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def shortened(text: str, length: int = 60) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def preview(payload: Any) -> str:
    """A payload in one short line."""
    if isinstance(payload, bytes):
        return f"{size(len(payload))} of bytes: {shortened(payload[:32].hex(), 32)}"
    return shortened(msgspec.json.encode(payload).decode())


def whole(payload: Any) -> str:
    """A payload in one line, in full."""
    if isinstance(payload, bytes):
        return f"base64:{base64.b64encode(payload).decode()}"
    return msgspec.json.encode(payload).decode()


def indented(payload: Any) -> list[str]:
    """A payload on as many lines as its structure has."""
    if isinstance(payload, bytes):
        return [whole(payload)]
    return msgspec.json.format(msgspec.json.encode(payload), indent=2).decode().splitlines()


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
