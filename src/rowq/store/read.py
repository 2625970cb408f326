"""Reads messages of a state in order: a page from a cursor on, or all of them one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rowq.ids import message_id
from rowq.model.failure import Failure, Failures, put_together
from rowq.model.fingerprint import LOOKED_AT
from rowq.model.message import Message, State
from rowq.model.page import Page
from rowq.store.dialect import Session
from rowq.store.due_time import FOR_EVER
from rowq.store.row import read_cursor, to_message

_FIRST = (-(1 << 62), -1)
_LAST = (1 << 62, 1 << 62)
_FIRST_GROUP = ("", -1)


def read_page(session: Session, page: Page) -> list[Message]:
    """A cursor is a place in the order of its state: a page continues after it, or before it if the newest come first."""
    if page.after is not None:
        a, b = read_cursor(page.state, page.after)
    else:
        a, b = _LAST if page.newest else _beginning(page.state)
    query = f"browse_{page.state}_newest" if page.newest else f"browse_{page.state}"
    rows = session.rows(
        query,
        queue=page.queue,
        message_key=page.key,
        group_key=page.group,
        text=page.text,
        sent_after=page.sent_after,
        sent_before=page.sent_before,
        a=a,
        b=b,
        limit=page.limit,
    )
    return [to_message(row, page.state) for row in rows]


def read_all(session: Session, queue: str, state: State) -> Iterator[Message]:
    """A leased dead letter counts as dead, as everywhere messages are counted or removed by state."""
    everything = {"message_key": None, "group_key": None, "text": None, "sent_after": None, "sent_before": None, "limit": FOR_EVER}
    for place in (State.LEASED, State.DEAD) if state is State.DEAD else (state,):
        a, b = _beginning(place)
        for row in session.stream(f"browse_{place}", queue=queue, a=a, b=b, **everything):
            message = to_message(row, place)
            if place is not State.LEASED or (message.reason is None) == (state is State.LEASED):
                yield message


def _beginning(state: State) -> tuple[Any, int]:
    return _FIRST_GROUP if state is State.BLOCKED else _FIRST


NEWEST = 10_000
"""How many dead letters are examined: enough to show an operator what matters, and fast even if there are a million."""


def read_failures(session: Session, queue: str, limit: int) -> Failures:
    """At most `limit` failures, each with one of its dead letters as an example."""
    rows = session.rows("list_newest_dead", queue=queue, characters=LOOKED_AT, limit=NEWEST + 1)
    looked_at = rows[:NEWEST]
    if not looked_at:
        return Failures(failures=[], looked_at=0, more=False)
    kinds = put_together(looked_at)[:limit]
    examples = {row[0]: row for row in session.rows("find_dead_examples", queue=queue, seqs=[kind.seq for kind in kinds])}
    failures = [
        Failure(
            reason=kind.reason,
            fingerprint=kind.fingerprint,
            count=kind.count,
            first_at=kind.first_at,
            last_at=kind.last_at,
            error=error,
            id=own_id or message_id(seq, sent_at),
        )
        for kind in kinds
        for seq, error, sent_at, own_id in [examples[kind.seq]]
    ]
    return Failures(failures=failures, looked_at=len(looked_at), more=len(rows) > NEWEST)


SLOT_MS = 10_000
MOST_LINES = 100_000
"""How many lines back reading starts at most."""


class Happened(NamedTuple):
    """One kind of audit line, and how often it was written. A named consumer is the `actor` of what it received and settled."""

    queue: str
    event: str
    actor: str | None
    slot: int
    """The start of the ten seconds."""
    times: int


def audit_end(session: Session) -> int:
    return session.rows("find_newest")[0][0] or 0


def audit_start(session: Session, since: int) -> int:
    """The line after which no line is older than `since`, at most 100,000 lines back; found by binary search."""
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
    """Counts the lines after `after`, up to and including `upto`."""
    return [Happened(*row) for row in session.rows("tally_audit", after=after, upto=upto, slot_ms=SLOT_MS)]
