"""What a client is told to do, and what it tells."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

_MASK = (1 << 64) - 1


class Task(msgspec.Struct, frozen=True):
    url: str
    secret: str
    name: str
    seed: int
    messages: int
    first: int
    """The number of the first message; those of other clients are far away."""
    threads: int
    batch: int
    ahead: int
    """Batches that each thread sends before it receives: so much is always waiting."""


class Sum(msgspec.Struct):
    """How many messages, and which: a lost one and a doubled one do not make up for each other."""

    count: int = 0
    numbers: int = 0
    squares: int = 0

    def add(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.count += 1
            self.numbers = (self.numbers + number) & _MASK
            self.squares = (self.squares + number * number) & _MASK

    def plus(self, other: Sum) -> Sum:
        return Sum(self.count + other.count, (self.numbers + other.numbers) & _MASK, (self.squares + other.squares) & _MASK)


class News(msgspec.Struct):
    """Sums since the beginning, and how long each call took since the last news, in microseconds."""

    sent: Sum = msgspec.field(default_factory=Sum)
    acked: Sum = msgspec.field(default_factory=Sum)
    dead: Sum = msgspec.field(default_factory=Sum)
    stale: int = 0
    """Settles that came too late: the message is delivered again."""
    calls: int = 0
    errors: dict[str, int] = {}
    """By code."""
    micros: dict[str, list[int]] = {}
    """By verb."""
    has_sent_all: bool = False
