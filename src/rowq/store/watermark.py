"""How far history and audit are settled: up to that line, nothing will appear any more that is not there now.

Lines get their numbers while their transactions are open, so a higher one may be committed before a lower one. Whoever reads on
from the last line that they saw would miss the lower one for good.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

PATIENCE = 1.0
"""How many seconds somebody who asks waits at most for open transactions."""


class Watermark(Protocol):
    def settled(self, kind: str) -> int:
        """The last settled line of `history` or `audit`, or an older one: never a later one, whatever is open elsewhere. What it waits
        for is remembered, and a later question goes on from there."""


class OneWriterWatermark:
    """Transactions that write come one after another: what is there is all that will ever be below it."""

    def __init__(self, reading: Callable[[], AbstractContextManager[Any]]) -> None:
        self._reading = reading

    def settled(self, kind: str) -> int:
        with self._reading() as session:
            return int(session.rows(f"last_line_{kind}")[0][0])
