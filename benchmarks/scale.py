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
    processes: int = 3
    """Of clients, where several connections are used; they share them."""
    connections: int = 8
    batches_each: int = 10
    """Of each connection, in a turn."""
    consumer_turns: int = 5
    jobs: int = 10_000
    """Of a peer that does thousands a second, in a turn."""
    processed: int = 200_000
    """Under a held snapshot, before a turn is taken."""
    held: int = 300_000
    """Processed at least, while a snapshot is held."""
    lease_seconds: float = 4
    process_seconds: float = 1
    """Of callers, in a turn."""
    endurance_seconds: float = 300
    """A minute for each fifth: autovacuum looks once a minute, and before that the ready table only grows."""
    read_rows: int = 1_000_000
    """Of a table that Spark reads, in a turn."""
    written_rows: int = 200_000
    """That Spark writes, in a turn."""
    drained_batches: int = 5
    """Of a stream, in a turn."""
    few_a_batch: int = 200
    many_a_batch: int = 20_000
    against: float = 0.3
    """Of the work that compares two commits, in a round."""


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
    consumer_turns=2,
    jobs=2_000,
    processed=20_000,
    held=20_000,
    lease_seconds=1,
    endurance_seconds=10,
    read_rows=20_000,
    written_rows=10_000,
    drained_batches=2,
    few_a_batch=50,
    many_a_batch=2_000,
    against=0.02,
)
