"""Dead letters grouped by cause, so that ten thousand of them become a few lines."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rowq.model.fingerprint import fingerprint
from rowq.model.message import Where


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters with one reason whose last errors mean the same. `Where(reason=…, fingerprint=…)` redrives them."""

    reason: str
    fingerprint: str
    """The error without its variable parts; empty if there was none."""
    count: int
    first_at: int
    last_at: int
    error: str | None
    """The full error of `id`."""
    id: str
    """The id of one of them."""


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """The most frequent first."""

    failures: list[Failure]
    looked_at: int
    """How many dead letters were grouped: the newest."""
    more: bool
    """Whether there are older ones."""


Letter = tuple[str, str | None, int, int]
"""Of a dead letter: its reason, the beginning of its error, when it died, its seq."""


class Kind(msgspec.Struct):
    """Dead letters of one failure, counted; `seq` is that of the newest."""

    reason: str
    fingerprint: str
    seq: int
    last_at: int
    first_at: int
    count: int = 0


def put_together(newest_first: Iterable[Letter]) -> list[Kind]:
    """The most frequent kinds first, and among equals the latest."""
    found: dict[tuple[str, str], Kind] = {}
    for reason, error, died_at, seq in newest_first:
        mark = fingerprint(error or "")
        kind = found.get((reason, mark)) or found.setdefault((reason, mark), Kind(reason, mark, seq, died_at, died_at))
        kind.count += 1
        kind.first_at = died_at
    return sorted(found.values(), key=lambda kind: (-kind.count, -kind.last_at, -kind.seq))


def has_fingerprint(error: str | None, mark: str | None) -> bool:
    """Whether an error, of which the beginning suffices, has the fingerprint `mark`; always so without one."""
    return mark is None or mark == fingerprint(error or "")


def matches(where: Where, reason: str | None, error: str | None, key: str | None, group: str | None, died_at: int | None) -> bool:
    """Whether a dead letter still matches `where`: a query has found it, and meanwhile it may have been redriven and died again."""
    return (
        where.reason in (None, reason)
        and (where.error is None or where.error in (error or ""))
        and has_fingerprint(error, where.fingerprint)
        and where.key in (None, key)
        and where.group in (None, group)
        and (where.died_before is None or (died_at or 0) < where.died_before)
        and (where.died_after is None or (died_at or 0) > where.died_after)
    )
