"""Runs of the audit: a row that is the same event of up to 64 messages, all of one block of seqs (decision 43)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

BLOCK = 64
"""As in the SQL."""

Line = tuple[int, str, int, str | None]
"""The seq, the queue, the attempt and the actor."""


def leads(seqs: Iterable[int]) -> list[int]:
    """What rows with lines of these messages have as their `seq`: that of the message, or for a run `lead`."""
    return sorted({number for seq in seqs for number in (seq, lead(seq))})


def lead(seq: int) -> int:
    """What a run has as its `seq`: -1 minus the number of the block."""
    return -1 - seq // BLOCK


def in_blocks(first: int, last: int) -> Iterator[list[int]]:
    """Consecutive seqs, in runs."""
    while first <= last:
        end = min(last, first | BLOCK - 1)
        yield list(range(first, end + 1))
        first = end + 1


def grouped(lines: Iterable[Line]) -> Iterator[tuple[list[int], str, int, str | None]]:
    """Lines of the same event, in runs."""
    runs: defaultdict[tuple[int, str, int, str | None], list[int]] = defaultdict(list)
    for seq, queue, attempt, actor in lines:
        runs[seq // BLOCK, queue, attempt, actor].append(seq)
    for (_, queue, attempt, actor), seqs in runs.items():
        yield seqs, queue, attempt, actor
