"""One transaction: its session, its time, the changes it will write, and what to notify after the commit."""

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
from rowq.store.row import AuditLine, grouped, in_blocks, lead


class Look(msgspec.Struct):
    """A look at what has fallen due: from which time on, and the result."""

    floor: int
    is_cheap: bool = True
    next: int | None = None
    took_ms: int = 0
    is_complete: bool = False
    """Everything that was due has been taken up."""


class Transaction:
    tally: Tally | None = None
    """What is counted, if a meter is attached (see rowq/store/meter.py)."""

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
        """`now` is the time of the whole transaction; `clock` continues."""
        self.session = session
        self.heads = heads
        self.clock = clock
        self.has_redriven = False
        self.news = news
        self.policies = policies
        self.now = now
        self.random = random
        self.actor = self.own_actor = actor
        self.changes: defaultdict[str, list[Any]] = defaultdict(list)
        """Rows to write, by query: `changes["insert_ready"].append(row)`, `changes["delete_leased"].append(seq)`."""
        self.has_changed_settings = False
        self._known: dict[str, Policy] = {}
        self.woken: defaultdict[str, int] = defaultdict(int)
        """How many messages have become ready, by topic (a queue, or a queue's dead letters)."""
        self.due: dict[str, int] = {}
        """When a topic has its next due message or lease expiry, as far as this transaction knows."""
        self.lowest: dict[str, Place] = {}
        """The lowest place in each queue where a message has become ready."""
        self.looked: dict[str, Look] = {}
        """Topics whose due times were looked up in this transaction."""
        self.delivered: defaultdict[str | None, list[int]] = defaultdict(list)
        """Messages leased in this transaction and not audited yet, by actor."""
        self.leaving: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        """(queue, group) → leaving messages; `groups.promote_next` promotes their successors."""
        self.returning: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        """(queue, group) → returning heads, which step back if an older message of the group waits."""

    def policy(self, queue: str) -> Policy:
        """The queue's current policy; call `forget_policy` after changing it."""
        known = self._known.get(queue)
        if known is None:
            known = self._known[queue] = self.policies.known(self.session, queue).policy
        return known

    def act_for(self, actor: str | None) -> None:
        """Audits everything from here on under this actor."""
        self.actor = actor or self.own_actor

    def change_settings(self) -> None:
        self.policies.changed(self.session)
        self.has_changed_settings = True

    def forget_policy(self, queue: str) -> None:
        self._known.pop(queue, None)

    def flush(self) -> None:
        """Writes the changes in the order of the lock rules."""
        if not self.changes:
            return
        for query in sorted(self.changes, key=_ORDER.__getitem__):
            rows, columns = self.changes[query], _WRITES[query]
            if rows and columns is None:
                self.session.write(query, seqs=rows)
            elif rows and columns is not None:
                self.session.many(query, columns, rows)
        self.changes.clear()

    def audit(self, queue: str, seq: int | None, event: str, attempt: int | None = None, detail: str | None = None) -> None:
        self.audit_as(self.actor, queue, seq, event, attempt, detail)

    def audit_as(
        self, actor: str | None, queue: str, seq: int | None, event: str, attempt: int | None = None, detail: str | None = None
    ) -> None:
        if self.tally is not None and seq is not None:
            self.tally.counts[queue, event] += 1
        if self.policy(queue).audit:
            self.changes["insert_audit"].append((self.now, queue, seq, event, attempt, actor, detail))

    def audit_enqueued(self, queue: str, first: int, last: int) -> None:
        """Messages of consecutive seqs were sent."""
        if first == last:
            self.changes["insert_audit"].append((self.now, queue, first, "enqueued", None, self.actor, None))
        elif self.session.writes_runs:
            for seqs in in_blocks(first, last):
                self._audit_run(seqs, queue, "enqueued", None, self.actor)
        else:
            self.changes["audit_enqueued"].append((first, last, self.now, queue, self.actor))

    def audit_runs(self, event: str, lines: list[AuditLine]) -> None:
        """The same event of several messages, for a session that `writes_runs`."""
        for seqs, queue, attempt, actor in grouped(lines):
            self._audit_run(seqs, queue, event, attempt, actor)

    def _audit_run(self, seqs: list[int], queue: str, event: str, attempt: int | None, actor: str | None) -> None:
        if len(seqs) == 1:
            self.changes["insert_audit"].append((self.now, queue, seqs[0], event, attempt, actor, None))
        else:
            row = (len(seqs), self.now, queue, lead(seqs[0]), event, attempt, actor, msgspec.json.encode(seqs).decode())
            self.changes["insert_audit_run"].append(row)

    def ready_at(self, queue: str, ranking: int, position: int, count: int = 1) -> None:
        """`count` messages have become ready, none of them before this place."""
        self.woken[queue] += count
        known, place = self.lowest.get(queue), (ranking, position)
        if known is None or place < known:
            self.lowest[queue] = place

    @property
    def has_news(self) -> bool:
        """Whether this process must learn something from it, even where no consumer waits."""
        return bool(self.looked or self.due or self.has_changed_settings or self.has_redriven)

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
    # Then the body, after undelivered keys were copied from it.
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
    "audit_enqueued": ("first", "last", "at", "queue", "actor"),
    "insert_audit": ("at", "queue", "seq", "event", "attempt", "actor", "detail"),
    # After single lines: a lease has expired before the message is delivered again.
    "insert_audit_run": ("lines", "at", "queue", "lead", "event", "attempt", "actor", "seqs"),
}
"""In the order of writing: the columns of a query that runs for each row; None for one that takes a list of seqs, or of audit lines."""

_ORDER = {query: number for number, query in enumerate(_WRITES)}
