"""All that one transaction is going to write, gathered row by row and written table by table."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from rowq.model.draft import PREPARED_COLUMNS
from rowq.store.dialect import Session

_WRITES: dict[str, tuple[str, ...] | None] = {
    # Out of the old state first: the state row is the lock on everything else.
    "delete_leased": None,
    "delete_dead": ("queue", "seq"),
    "delete_history": None,
    "free_key": ("queue", "message_key", "seq"),
    "hold_key": ("queue", "message_key", "seq"),
    "delete_group_head": ("queue", "group_key"),
    "set_group_head": ("queue", "group_key", "head"),
    "delete_blocked": ("queue", "group_key", "seq"),
    "delete_scheduled": None,
    "delete_ready": ("queue", "ranking", "position", "seq"),
    "delete_ready_run": ("queue", "ranking", "first", "last"),
    "delete_moved": None,
    "delete_expiring": None,
    # Then the body, which undelivered keys are copied from before it goes.
    "copy_to_kv": ("entry_key", "written_at", "message_id", "seq"),
    "delete_message": None,
    "replace_body": ("format", "payload", "headers", "seq"),
    "insert_plain_message": ("seq", "sent_at", "queue", "format", "payload", "priority"),
    "insert_message": ("seq", "sent_at", *PREPARED_COLUMNS),
    "leave_own_id": ("gone_at", "id", "queue"),
    "delete_own_id": ("id", "queue"),
    "insert_own_id": ("id", "seq", "queue"),
    # Into the new state last.
    "make_ready": ("first", "last"),
    "insert_ready": ("queue", "ranking", "position", "seq", "attempts", "expires_at", "error"),
    "insert_moved": ("seq", "position"),
    "insert_scheduled": ("queue", "due", "seq", "attempts", "expires_at", "error"),
    "insert_blocked": ("queue", "group_key", "seq", "due", "attempts", "expires_at", "error"),
    "insert_leased": ("seq", "queue", "lease_until", "token", "consumer", "leased_at", "attempts", "expires_at", "error", "marks"),
    "insert_leased_dead": (
        *("seq", "queue", "lease_until", "token", "consumer", "leased_at", "attempts", "error", "marks"),
        *("reason", "died_at", "redeliveries"),
    ),
    "insert_dead": ("queue", "seq", "due", "attempts", "redeliveries", "reason", "error", "died_at"),
    "insert_history": (
        *("seq", "queue", "outcome", "sent_at", "leased_at", "finished_at", "attempts", "consumer", "error"),
        *("message_key", "group_key", "priority", "own_id"),
    ),
    "insert_expiring": ("seq", "queue", "ends_at"),
    "delete_audit": None,
    "audit_enqueued": ("first", "last", "actor"),
    "insert_audit": ("at", "queue", "seq", "event", "attempt", "actor", "detail"),
}
"""In the order of writing: the columns of a query that is run for each row; None for one that takes a list of
seqs, or of lines of the audit, at once."""

_ORDER = {query: number for number, query in enumerate(_WRITES)}


class Changes:
    """`changes["insert_ready"].append(row)`, `changes["delete_leased"].append(seq)`: `write` writes them in the order of the lock rules."""

    def __init__(self) -> None:
        self._rows: defaultdict[str, list[Any]] = defaultdict(list)

    def __getitem__(self, query: str) -> list[Any]:
        return self._rows[query]

    def write(self, session: Session) -> None:
        if not self._rows:
            return
        for query in sorted(self._rows, key=_ORDER.__getitem__):
            rows, columns = self._rows[query], _WRITES[query]
            if rows and columns is None:
                session.write(query, seqs=rows)
            elif rows and columns is not None:
                session.many(query, columns, rows)
        self._rows.clear()
