"""One transaction at work: its session, its moment, what it is going to write, and whom to wake once that is on disk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec

from rowq.model.draft import PREPARED_COLUMNS
from rowq.model.queue import Policy
from rowq.store.dialect import Session
from rowq.store.head_hint import Heads
from rowq.store.meter import Tally
from rowq.store.notify.notifier import Place
from rowq.store.policy import Policies


class Look(msgspec.Struct):
    """A look at what has fallen due: from which time on, and what came of it."""

    floor: int
    is_cheap: bool = True
    next: int | None = None
    took_ms: int = 0
    is_complete: bool = False
    """Nothing that is due was left behind."""


class Transaction:
    tally: Tally | None = None
    """What is counted, where somebody counts (see rowq/store/meter.py)."""

    def __init__(
        self,
        session: Session,
        policies: Policies,
        now: int,
        random: Callable[[], float],
        actor: str | None,
        news: Callable[[], int],
        heads: Heads,
        clock: Callable[[], int],
    ) -> None:
        """`now` is the moment of the whole transaction; `clock` goes on."""
        self.session = session
        self.heads = heads
        self.clock = clock
        self.has_redriven = False
        self.news = news
        self.policies = policies
        self.now = now
        self.random = random
        self.actor = self.own_actor = actor
        self.changes = Changes()
        self.has_changed_settings = False
        self._known: dict[str, Policy] = {}
        self.woken: defaultdict[str, int] = defaultdict(int)
        """How many messages have become ready, by topic (a queue, or a queue's dead letters)."""
        self.due: dict[str, int] = {}
        """When a topic will have something without anybody sending, as far as this transaction learned."""
        self.lowest: dict[str, Place] = {}
        """The lowest place in each queue where a message has become ready."""
        self.looked: dict[str, Look] = {}
        """Topics whose times were looked up in this transaction."""
        self.delivered: defaultdict[str | None, list[int]] = defaultdict(list)
        """Leased in this transaction, and not in the audit yet: by whom."""
        self.leaving: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        """(queue, group) → messages on their way out, whose successors are called up by `groups.call_up`."""
        self.returning: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        """(queue, group) → heads that come back, and step back where an older message of the group waits."""

    def policy(self, queue: str) -> Policy:
        """What holds for the queue now; `forget_policy` after changing it."""
        known = self._known.get(queue)
        if known is None:
            known = self._known[queue] = self.policies.of(self.session, queue)
        return known

    def act_for(self, actor: str | None) -> None:
        """What is audited from here on is that caller's doing."""
        self.actor = actor or self.own_actor

    def change_settings(self) -> None:
        self.policies.changed(self.session)
        self.has_changed_settings = True

    def forget_policy(self, queue: str) -> None:
        self._known.pop(queue, None)

    def flush(self) -> None:
        self.changes.write(self.session)

    def audit(self, queue: str, seq: int | None, event: str, attempt: int | None = None, detail: str | None = None) -> None:
        self.audit_as(self.actor, queue, seq, event, attempt, detail)

    def audit_as(
        self, actor: str | None, queue: str, seq: int | None, event: str, attempt: int | None = None, detail: str | None = None
    ) -> None:
        if self.tally is not None and seq is not None:
            self.tally.counts[queue, event] += 1
        if self.policy(queue).audit:
            self.changes["insert_audit"].append((self.now, queue, seq, event, attempt, actor, detail))

    def ready_at(self, queue: str, ranking: int, position: int, count: int = 1) -> None:
        """So many have become ready, none of them before that place."""
        self.woken[queue] += count
        known, place = self.lowest.get(queue), (ranking, position)
        if known is None or place < known:
            self.lowest[queue] = place

    def wakes_at(self, topic: str, due: int) -> None:
        known = self.due.get(topic)
        if known is None or due < known:
            self.due[topic] = due


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
