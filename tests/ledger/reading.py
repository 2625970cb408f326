"""What a query would do with a batch: cut it, read every slice, and look at the payloads."""

from __future__ import annotations

from typing import Any

import msgspec

from rowq.spark.ledger import Ledger

STREAM = "orders-stream"


def payloads(ledger: Ledger, after: int, upto: int, parts: int = 1, stream: str = STREAM) -> list[Any]:
    """Of all slices, one behind the other."""
    return [payload for piece in sliced(ledger, after, upto, parts, stream) for payload in piece]


def sliced(ledger: Ledger, after: int, upto: int, parts: int, stream: str = STREAM) -> list[list[Any]]:
    return [
        [msgspec.json.decode(row[6]) for rows in ledger.read(piece) for row in rows] for piece in ledger.slices(stream, after, upto, parts)
    ]
