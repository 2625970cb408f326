"""Archive segments in the database: which lines of history and audit each contains, and its state."""

from __future__ import annotations

from typing import Literal

import msgspec

from rowq.store.dialect import Session
from rowq.store.expiry import forget_finished, remove_audit
from rowq.store.transaction import Transaction

Kind = Literal["history", "audit"]
State = Literal["intent", "committed", "purged"]

KINDS: tuple[Kind, ...] = ("history", "audit")

_NO_LIMIT = 1 << 62


class Segment(msgspec.Struct, frozen=True):
    """Lines from `first` to `last`, both included. Some numbers between them may be unused."""

    number: int
    first: int
    last: int
    lines: int
    """How many lines there were when it was planned; once it is committed, how many are in the lake."""
    state: State
    planned_at: int
    committed_at: int | None


def list_segments(session: Session, lake: str, kind: Kind) -> list[Segment]:
    return [Segment(*row) for row in session.rows("list_segments", lake=lake, kind=kind)]


def count_lines(session: Session, kind: Kind, first: int, last: int, most: int | None = None) -> tuple[int, int | None]:
    """How many lines a range has, counting at most `most`, and the number of the last one counted."""
    count, highest = session.rows(f"measure_{kind}", first=first, last=last, limit=most or _NO_LIMIT)[0]
    return int(count), highest


class Plan(msgspec.Struct, frozen=True):
    """Fixes the next range, from the end of the last segment up to a settled line. A segment that was planned but not committed is returned
    first, unchanged; None if there is nothing new."""

    lake: str
    kind: Kind
    settled: int
    most: int
    """Lines per segment."""

    def __call__(self, tx: Transaction) -> Segment | None:
        known = list_segments(tx.session, self.lake, self.kind)
        if known and known[-1].state == "intent":
            return known[-1]
        first = known[-1].last + 1 if known else 1
        count, highest = count_lines(tx.session, self.kind, first, self.settled, self.most)
        if not count or highest is None:
            return None
        last = highest if count == self.most else self.settled
        number = known[-1].number + 1 if known else 1
        values = {"lake": self.lake, "kind": self.kind, "segment": number, "first": first, "last": last, "lines": count, "now": tx.now}
        tx.session.write("insert_segment", **values)
        return list_segments(tx.session, self.lake, self.kind)[-1]


class Commit(msgspec.Struct, frozen=True):
    """Records that the lake has the segment. May be repeated."""

    lake: str
    kind: Kind
    segment: int
    lines: int

    def __call__(self, tx: Transaction) -> None:
        tx.session.write("commit_segment", lake=self.lake, kind=self.kind, segment=self.segment, lines=self.lines, now=tx.now)


class Purge(msgspec.Struct, frozen=True):
    """The last step, in batches: removes the lines of a committed segment from the database, history together with its kept bodies.

    Returns how many were removed, and the line to continue from; None at the end, when the segment is marked as purged.
    """

    lake: str
    kind: Kind
    segment: int
    first: int
    last: int
    limit: int

    def __call__(self, tx: Transaction) -> tuple[int, int | None]:
        remove = _remove_history if self.kind == "history" else _remove_audit
        rows = remove(tx, self.first, self.last, self.limit)
        tx.flush()
        removed = sum([lines for _, lines in rows])
        if len(rows) == self.limit:
            return removed, rows[-1][0] + 1
        tx.session.write("end_segment", lake=self.lake, kind=self.kind, segment=self.segment)
        return removed, None


def last_publication(session: Session, writer: str) -> int | None:
    """The highest version published by a writer."""
    version: int | None = session.rows("find_last_publication", writer=writer)[0][0]
    return version


def _remove_history(tx: Transaction, first: int, last: int, limit: int) -> list[tuple[int, int]]:
    rows = tx.session.rows("list_history_lines", first=first, last=last, limit=limit)
    for queue in sorted({row[2] for row in rows}):
        forget_finished(tx, queue, [row[1] for row in rows if row[2] == queue])
    return [(row[0], 1) for row in rows]


def _remove_audit(tx: Transaction, first: int, last: int, limit: int) -> list[tuple[int, int]]:
    rows = [(id, lines) for id, lines in tx.session.rows("list_audit_rows", first=first, last=last, limit=limit)]
    remove_audit(tx, [id for id, _ in rows], tx.session.rows("find_newest")[0][0])
    return rows
