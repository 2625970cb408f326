"""Why the dead letters of a queue died: the newest of them, put together by reason and error."""

from __future__ import annotations

from rowq.ids import message_id
from rowq.model.failure import Failure, Failures, put_together
from rowq.model.fingerprint import LOOKED_AT
from rowq.store.dialect import Session

NEWEST = 10_000
"""So many are looked at: what an operator should see is among them, and it stays quick with a million."""


def read_failures(session: Session, queue: str, limit: int) -> Failures:
    """At most `limit` of them, each with one of its letters as an example."""
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
