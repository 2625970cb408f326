"""A size at which everything runs and no figure means anything.

Rows and calls are few. Spans of time are long enough that something is done in each of them on a busy machine too.
"""

from __future__ import annotations

from benchmarks.scale import Scale

TINY = Scale(
    turns=2,
    caller_turns=2,
    callers=4,
    calls_each=2,
    cycles=2,
    batch=5,
    backlog=10,
    small=20,
    large=40,
    few=20,
    many=60,
    aside=30,
    samples=20,
    lines=50,
    load_turns=1,
    load_seconds=3,
    load_backlog=60_000,
    processes=2,
    connections=3,
    batches_each=2,
    consumer_turns=2,
    jobs=40,
    processed=50,
    held=50,
    lease_seconds=5,
    process_seconds=0.2,
    endurance_seconds=15,
    read_rows=200,
    written_rows=40,
    drained_batches=2,
    few_a_batch=2,
    many_a_batch=10,
)
