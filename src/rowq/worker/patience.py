"""What to do when the database is unavailable: wait, longer each time, and try again."""

from __future__ import annotations

import random

from rowq.errors import OutcomeUnknown, RowqError, SchemaMismatch, ServerUnavailable, StoreCorrupt, StoreError

FIRST = 0.05
LONGEST = 5.0


class Patience:
    """Counts consecutive failures, and gives the seconds until the next try, with jitter."""

    def __init__(self) -> None:
        self.failures = 0

    def pause(self) -> float:
        self.failures += 1
        return min(LONGEST, FIRST * 2.0 ** min(self.failures, 16)) * (0.5 + random.random() / 2)

    def reset(self) -> None:
        self.failures = 0


def passes(error: RowqError) -> bool:
    """Whether it may resolve itself: the database or the server is unavailable, busy or full."""
    if isinstance(error, SchemaMismatch | StoreCorrupt):
        return False
    return isinstance(error, StoreError | ServerUnavailable | OutcomeUnknown)
