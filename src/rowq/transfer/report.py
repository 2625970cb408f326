"""The result of a copy, queue by queue."""

from __future__ import annotations

import msgspec


class Counts(msgspec.Struct, frozen=True):
    """How many messages of a copy are in which state."""

    ready: int
    scheduled: int
    leased: int
    blocked: int
    dead: int
    finished: int

    @property
    def sums(self) -> tuple[int, int, int]:
        """Sums that neither due times nor released leases change: all waiting messages, dead letters, the history."""
        return self.ready + self.scheduled + self.leased + self.blocked, self.dead, self.finished


class QueueReport(msgspec.Struct, frozen=True):
    """One queue. It has no counts if it was complete before this run: its messages may be anywhere by now."""

    queue: str
    copied: int
    """In this run."""
    removed: int
    later: int
    """Messages sent to the source since; the next run takes them."""
    source: Counts | None
    target: Counts | None

    @property
    def agrees(self) -> bool:
        return self.source is None or self.target is None or self.source.sums == self.target.sums
