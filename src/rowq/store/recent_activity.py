"""What happened lately, counted: the newest lines of the audit by queue, event, who it was, and ten seconds.

Whoever goes on from where they were reads each line once, so to watch a database costs what happens there, not what has happened.
"""

from __future__ import annotations

from typing import NamedTuple

from rowq.store.dialect import Session

SLOT_MS = 10_000
MOST_LINES = 100_000
"""How far back somebody begins at most, however much happened."""


class Happened(NamedTuple):
    """One kind of line, and how many times it was written. Where a consumer gave a name, that is the `actor` of what it received and
    settled."""

    queue: str
    event: str
    actor: str | None
    slot: int
    """The first moment of the ten seconds."""
    times: int


def audit_end(session: Session) -> int:
    return session.rows("find_newest")[0][0] or 0


def audit_start(session: Session, since: int) -> int:
    """The line behind which nothing is older than that moment, and no more than the newest hundred thousand are: found by halves."""
    end = audit_end(session)
    low, high = max(0, end - MOST_LINES), end
    while low < high:
        middle = (low + high) // 2
        line = session.row("list_audit", after=middle, limit=1)
        if line is None or line[1] >= since:
            high = middle
        else:
            low = line[0]
    return low


def tally_audit(session: Session, after: int, upto: int) -> list[Happened]:
    """Lines behind `after`, up to and with `upto`."""
    return [Happened(*row) for row in session.rows("tally_audit", after=after, upto=upto, slot_ms=SLOT_MS)]
