"""How much each benchmark does."""

from __future__ import annotations

from typing import NamedTuple


class Scale(NamedTuple):
    """The sizes at which the bars are meant."""

    turns: int = 20
    callers: int = 64
    caller_turns: int = 3
    calls_each: int = 20
    """Of each caller, in a turn."""
    cycles: int = 20
    """Of a batch, in a turn."""
    batch: int = 100
    backlog: int = 10_000
    small: int = 2_000
    large: int = 40_000
    few: int = 1_000
    many: int = 1_000_000
    aside: int = 100_000
    samples: int = 300
    lines: int = 1_000_000
    load_turns: int = 3
    load_seconds: int = 2
    load_backlog: int = 150_000


FULL = Scale()
QUICK = Scale(
    turns=5,
    caller_turns=2,
    backlog=1_000,
    small=500,
    large=2_000,
    many=30_000,
    aside=5_000,
    samples=60,
    lines=20_000,
    load_turns=1,
    load_seconds=1,
    load_backlog=30_000,
)
