"""Other activity on a PostgreSQL server that harms a queue, for `rowq doctor`, with advice for each."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import psycopg

from rowq.errors import RowqError
from rowq.store.dialect import Finding, Session

Open = Callable[[], psycopg.Connection[Any]]
"""Opens one more connection in autocommit mode."""

_LONG = 60.0
"""Seconds. A backup takes longer, and does harm."""
_LONG_LOCK = 10.0
_MANY_TRANSACTIONS = 1_000_000
_MUCH_LOG = 1 << 30
_HALF = 0.5
_PATIENCE = 2.0
"""Seconds that a notification may take."""


class _Activity(msgspec.Struct, frozen=True):
    """A session. Its state and query are hidden from users without the right to see them."""

    pid: int
    user: str | None
    application: str | None
    state: str | None
    query: str | None
    seconds: float | None

    def __str__(self) -> str:
        since = "" if self.seconds is None else f" for {_duration(self.seconds)}"
        query = f": {' '.join((self.query or '').split())[:100]}" if self.query else ""
        return f"pid {self.pid} ({self.user or 'unknown user'}, {self.application or 'no application_name'}) {self.state}{since}{query}"


def snapshots(session: Session, user: str, *, sees_all: bool) -> Finding:
    rows = session.rows("list_snapshots")
    held = [_Activity(*row[:6]) for row in rows if (row[5] or 0.0) >= _LONG or (row[5] is None and row[6] >= _MANY_TRANSACTIONS)]
    if held:
        advice = f"rows deleted since then cannot be removed: let it end, or SELECT pg_terminate_backend({held[0].pid})"
        if held[0].state == "walsender":
            advice = "a standby with hot_standby_feedback keeps rows deleted since then from being removed: end the long query there"
        return Finding("oldest snapshot", False, _first(held), advice)
    blind = None if sees_all else f"sessions of other users are hidden: GRANT pg_read_all_stats TO {user} shows them"
    ages = [row[5] for row in rows if row[5] is not None]
    return Finding("oldest snapshot", True, f"{_duration(max(ages))} old" if ages else "none is held", blind)


def prepared_transactions(session: Session) -> Finding:
    old = [row for row in session.rows("list_prepared") if row[2] >= _LONG]
    if not old:
        return Finding("prepared transactions", True, "none is old")
    gid, owner, seconds = old[0]
    advice = f"it holds locks and a snapshot until it is ended: run COMMIT PREPARED or ROLLBACK PREPARED '{gid}'"
    return Finding("prepared transactions", False, f"{gid!r} of {owner} for {_duration(seconds)}{_more(old)}", advice)


def replication_slots(session: Session) -> Finding:
    rows = session.rows("list_slots")
    bad = [row for row in rows if _is_bad_slot(*row[1:])]
    if not bad:
        return Finding("replication slots", True, f"{len(rows)}")
    name, is_active, transactions, log = bad[0]
    held = f"{transactions:,} transactions" if transactions is not None else f"{log / 1e6:,.1f} MB of the log"
    advice = (
        "a long query on the standby keeps deleted rows from being removed: end it there, or switch hot_standby_feedback off"
        if is_active
        else f"it grows until the disk is full: bring its standby back, or SELECT pg_drop_replication_slot('{name}')"
    )
    return Finding("replication slots", False, f"{name}{'' if is_active else ', which is inactive,'} holds back {held}{_more(bad)}", advice)


def _is_bad_slot(is_active: bool, transactions: int | None, log: int | None) -> bool:
    if is_active:
        return (transactions or 0) >= _MANY_TRANSACTIONS
    return transactions is not None or (log or 0) >= _MUCH_LOG


def locks(session: Session) -> Finding:
    rows = [row for row in session.rows("list_locks") if (row[5] or 0.0) >= _LONG_LOCK]
    if not rows:
        return Finding("locks", True, "none is held for long")
    holder, tables, waiting = _Activity(*rows[0][:6]), rows[0][6], rows[0][7]
    advice = f"messages that it has locked are stuck: let it commit, or SELECT pg_terminate_backend({holder.pid})"
    return Finding("locks", False, f"{holder}; on {tables}; {waiting} wait for it{_more(rows)}", advice)


def wake_ups(queue: float, *, is_pooled: bool, is_standby: bool, open: Open) -> Finding:
    """Sends a notification from one connection to another. Behind a pooler it arrives only if each session has a backend of its own."""
    if queue >= _HALF:
        advice = "a listening session has a long transaction open: end it (see the oldest snapshot), or NOTIFY will soon fail"
        return Finding("wake-ups", False, f"the queue of notifications is {queue:.0%} full", advice)
    if is_standby:
        return Finding("wake-ups", True, "a standby sends none")
    is_heard = _try_to_be_heard(open)
    if isinstance(is_heard, str):
        return Finding("wake-ups", False, f"could not be tried: {is_heard}", "it takes two more connections: see why there are none")
    if is_heard:
        return Finding("wake-ups", True, f"notifications arrive{', by a pooler' if is_pooled else ''}")
    if is_pooled:
        advice = "to be woken at once, give an address that leads past the pooler, or a Redis"
        return Finding("wake-ups", True, "a pooler holds back notifications: waiting receives poll ten times a second instead", advice)
    return Finding("wake-ups", False, f"no notification arrived within {_PATIENCE:g} s", "is the server, or the way to it, overloaded?")


def _try_to_be_heard(open: Open) -> bool | str:
    """Whether the notification arrived, or why it could not be tried. Runs in a thread: a pooler without a spare connection makes it wait
    for as long as this session holds its own."""
    answers: list[bool | str] = []

    def attempt() -> None:
        try:
            answers.append(_is_heard(open))
        except (psycopg.Error, RowqError) as error:
            answers.append(" ".join(str(error).split())[:200])

    thread = threading.Thread(target=attempt, name="rowq-doctor", daemon=True)
    thread.start()
    thread.join(_PATIENCE * 2)
    return answers[0] if answers else f"no connection within {_PATIENCE * 2:g} s"


def _is_heard(open: Open) -> bool:
    channel = f"rowq_doctor_{secrets.token_hex(8)}"
    with open() as listening, open() as telling:
        listening.execute(f'LISTEN "{channel}"')
        telling.execute(f'NOTIFY "{channel}"')
        is_heard = any(True for _ in listening.notifies(timeout=_PATIENCE, stop_after=1))
        with suppress(psycopg.Error):  # a pooler would keep the subscription
            listening.execute(f'UNLISTEN "{channel}"')
    return is_heard


def _first(found: list[_Activity]) -> str:
    return f"{found[0]}{_more(found)}"


def _more(found: list[Any]) -> str:
    return f", and {len(found) - 1} more" if len(found) > 1 else ""


def _duration(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
