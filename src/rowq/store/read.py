"""Reads messages of a state in order: a page from a cursor on, or all of them one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rowq.ids import message_id
from rowq.model.failure import Failure, Failures, has_fingerprint, put_together
from rowq.model.fingerprint import LOOKED_AT
from rowq.model.message import Message, State
from rowq.model.page import Page
from rowq.store.dialect import Session
from rowq.store.due_time import FOR_EVER
from rowq.store.row import read_cursor, to_message, write_cursor

_FIRST = (-(1 << 62), -1)
_LAST = (1 << 62, 1 << 62)
_FIRST_GROUP = ("", -1)

CANDIDATES = 500
"""Dead letters fingerprinted by one query: in a redrive this takes no longer than moving as many."""
_MOST_QUERIES = 20
"""Of one page with a fingerprint."""

Place = tuple[Any, int]
"""A place in the order of a state."""


class Found(NamedTuple):
    messages: list[Message]
    next: str | None
    """The cursor at which the next page begins; None at the end."""


def read_page(session: Session, page: Page) -> Found:
    """A cursor is a place in the order of its state: a page continues after it, or before it if the newest come first.

    With a fingerprint a page may be short, or empty, and still have a `next`: what one page examines is bounded.
    """
    start = _LAST if page.newest else _beginning(page.state)
    place = start if page.after is None else read_cursor(page.state, page.after)
    if page.fingerprint is not None:
        return _read_with_fingerprint(session, page, place)
    query = f"browse_{page.state}_newest" if page.newest else f"browse_{page.state}"
    messages = [to_message(row, page.state) for row in session.rows(query, **_parameters(page, place, page.limit))]
    return Found(messages, messages[-1].cursor if len(messages) == page.limit else None)


def match_dead(session: Session, page: Page, place: Place, limit: int) -> tuple[list[int], Place | None]:
    """The seqs of the next dead letters that match, and the place where the search continues; None at the end.

    One query. The database cannot compute a fingerprint: with one, at most CANDIDATES that match the rest are examined here.
    """
    most = limit if page.fingerprint is None else CANDIDATES
    rows = session.rows("match_dead_newest" if page.newest else "match_dead", characters=LOOKED_AT, **_parameters(page, place, most))
    seqs: list[int] = []
    for died_at, seq, error in rows:
        if has_fingerprint(error, page.fingerprint):
            seqs.append(seq)
            if len(seqs) == limit:
                return seqs, (died_at, seq)
    return seqs, rows[-1][:2] if len(rows) == most else None


def read_all(session: Session, queue: str, state: State) -> Iterator[Message]:
    """A leased dead letter counts as dead, as everywhere messages are counted or removed by state."""
    for place in (State.LEASED, State.DEAD) if state is State.DEAD else (state,):
        everything = _parameters(Page(queue=queue, state=place), _beginning(place), FOR_EVER)
        for row in session.stream(f"browse_{place}", **everything):
            message = to_message(row, place)
            if place is not State.LEASED or (message.reason is None) == (state is State.LEASED):
                yield message


def _read_with_fingerprint(session: Session, page: Page, place: Place | None) -> Found:
    """Finds the dead letters first, then reads their bodies. In one snapshot, so none has moved in between."""
    seqs: list[int] = []
    for _ in range(_MOST_QUERIES):
        if place is None or len(seqs) == page.limit:
            break
        found, place = match_dead(session, page, place, page.limit - len(seqs))
        seqs += found
    rows = session.rows("read_dead", queue=page.queue, seqs=seqs) if seqs else []
    by_seq = {row[0]: to_message(row, State.DEAD) for row in rows}
    return Found([by_seq[seq] for seq in seqs], None if place is None else write_cursor(State.DEAD, *place))


def _parameters(page: Page, place: Place, limit: int) -> dict[str, Any]:
    """A filter as the queries of a page take it; those of other states than dead use a part."""
    return {
        "queue": page.queue,
        "message_key": page.key,
        "group_key": page.group,
        "text": page.text,
        "sent_after": page.sent_after,
        "sent_before": page.sent_before,
        "reason": page.reason,
        "error": page.error,
        "died_before": page.died_before,
        "died_after": page.died_after,
        "a": place[0],
        "b": place[1],
        "limit": limit,
    }


def _beginning(state: State) -> Place:
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
