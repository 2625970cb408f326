"""A call that is alone in its transaction: one plain message is sent, received or acked by just the statements that this needs.

The general way collects the changes of any number of calls and writes them together; for a single message that takes as long as the
statements themselves. Here is only the usual case: a message that needs a decision is left to the general way, with nothing written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from rowq.clock import running
from rowq.ids import message_ids, new_tokens
from rowq.model.draft import HARMLESS, MODE_MARKS
from rowq.model.lifecycle import Ack
from rowq.model.message import Outcome
from rowq.store.call import Call, Receive, Send, Settle
from rowq.store.claim import may_receive
from rowq.store.policy import Policies
from rowq.store.row import ReadyRow
from rowq.store.sqlite.session import SqliteQueries, SqliteSession

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rowq.store.store import Store


_DETOURS = 20
"""Receives and acks that do not look again after one has looked in vain."""


class Writing(Protocol):
    def __call__(self, *, durable: bool) -> AbstractContextManager[SqliteSession]: ...


class Lone:
    def __init__(self, queries: SqliteQueries, writing: Writing) -> None:
        self._writing = writing
        self._detours = 0
        """How many receives and acks more go the general way at once."""
        self._insert_message = queries.by_position("insert_plain_message", ("seq", "sent_at", "queue", "format", "payload", "priority"))
        self._insert_ready = queries.by_position("insert_new_ready", ("queue", "ranking", "seq"))
        self._take_ready = queries.by_position("take_ready", ("queue", "limit"))
        self._delete_ready = queries.by_position("delete_ready", ("queue", "ranking", "position", "seq"))
        columns = ("seq", "queue", "lease_until", "token", "leased_at", "attempts", "marks")
        self._insert_lease = queries.by_position("insert_plain_lease", columns)
        self._find_leased = queries.of_one("lock_leased")
        self._delete_leased = queries.of_one("delete_leased")
        self._delete_message = queries.of_one("delete_message")
        self._audit = queries.by_position("insert_audit", ("at", "queue", "seq", "event", "attempt", "actor", "detail"))

    def perform(self, call: Call[Any], store: Store, policies: Policies) -> bool:
        kind = type(call)
        if kind is Send:
            return self._send(call, store, policies)  # type: ignore[arg-type]  # `kind` says it, at a fraction of isinstance's price
        if self._detours:
            self._detours -= 1
            return False
        if kind is Receive:
            return self._receive(call, store, policies)  # type: ignore[arg-type]
        return kind is Settle and self._ack(call, store, policies)  # type: ignore[arg-type]

    def _decline(self) -> bool:
        """What was found is not plain, and what comes next will hardly be: looking in vain costs a transaction."""
        self._detours = _DETOURS
        return False

    def _send(self, call: Send, store: Store, policies: Policies) -> bool:
        if call.rows != 1 or not call.is_plain or call.request is not None or store.listeners:
            return False
        queue, message = call.queue, call.messages[0]
        policy = policies.open_to(queue, call.size)
        if policy is None:
            return False
        with self._writing(durable=True) as session:
            now = store.clock.now()  # not before: another process may have held the file for long
            seq = session.draw_seqs(1)
            session.execute(self._insert_message, (seq, now, queue, message.format, bytearray(message.payload), message.priority))
            session.execute(self._insert_ready, (queue, -message.priority, seq))
            if policy.audit:
                session.execute(self._audit, (now, queue, seq, "enqueued", None, call.actor or store.actor, None))
        call.result = message_ids(seq, 1, now)
        return True

    def _receive(self, call: Receive, store: Store, policies: Policies) -> bool:
        if call.max != 1 or call.consumer is not None or call.share is not None:
            return False
        queue = call.queue
        policy = may_receive(policies, [call])
        if policy is None or store.times.look(call.topic, store.clock.now()) is not None:
            return False
        began = running()
        with self._writing(durable=False) as session:
            now = store.clock.now()
            rows = session.execute(self._take_ready, (queue, 1)).fetchall()
            if not rows:
                call.result = []
                return True
            row = rows[0]
            seq, ranking, position, attempts, expires_at, error, marks = row[: ReadyRow.MARKS + 1]
            if marks or expires_at is not None or error is not None or position != seq:
                return self._decline()
            token, attempts = new_tokens(1)[0], attempts + 1
            until = now + (call.lease_ms or policy.lease_ms)
            mark = MODE_MARKS[call.delivery] if call.delivery else 0
            session.execute(self._delete_ready, (queue, ranking, position, seq))
            session.execute(self._insert_lease, (seq, queue, until, token, now, attempts, mark))
            if policy.audit:
                session.execute(self._audit, (now, queue, seq, "delivered", attempts, call.actor or store.actor, None))
        call.result = [(seq, queue, attempts, token, until, *row[ReadyRow.BODY])]
        call.begun(began, now)
        store.times.falls_due(call.topic, until)
        return True

    def _ack(self, call: Settle, store: Store, policies: Policies) -> bool:
        if len(call.receipts) != 1 or type(call.settlement) is not Ack or call.reaches is not None:
            return False
        seq, token = call.receipts[0]
        with self._writing(durable=False) as session:
            rows = session.execute(self._find_leased, (seq,)).fetchall()
            if not rows:
                return False
            _, held, queue, marks, has_extras, attempts, consumer, _ = rows[0]
            policy = policies.remembered(queue)
            if held != token or has_extras or marks & ~HARMLESS or policy is None or policy.keep != "none":
                return self._decline()
            session.execute(self._delete_leased, (seq,))
            session.execute(self._delete_message, (seq,))
            if policy.audit:
                actor = consumer or call.actor or store.actor
                session.execute(self._audit, (store.clock.now(), queue, seq, "acked", attempts, actor, None))
        call.result = [Outcome.DONE]
        return True
