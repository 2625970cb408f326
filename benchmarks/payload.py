"""What is sent: a small JSON object, 100 bytes when encoded, each a little different."""

from __future__ import annotations

import msgspec

SIZE = 100
_PADDING = "x" * 47


def payload(number: int) -> dict[str, object]:
    return {"to": "ada@example.com", "order": number % 10**9 + 10**9, "text": _PADDING}


def payloads(count: int, start: int = 0) -> list[dict[str, object]]:
    return [payload(start + number) for number in range(count)]


def body(number: int) -> bytes:
    """The payload as it is stored."""
    return msgspec.json.encode(payload(number))
