"""Settling: what consumers say about their deliveries. The receipt's token must be the one of the current lease."""

from __future__ import annotations

from rowq.model import lifecycle
from rowq.model.draft import HAS_DEADLINE, MODE_MARKS
from rowq.model.lifecycle import Ack, Extend, Nack, Reject, Reschedule, Verdict
from rowq.model.message import Outcome
from rowq.store import groups
from rowq.store.calls import Settle
from rowq.store.dialect import Row
from rowq.store.held import Held, hold_leased
from rowq.store.moving import move, policy_of_lease
from rowq.store.work import Work

_HARMLESS = sum(MODE_MARKS.values())
_EVENTS: dict[type, str] = {Ack: "acked", Reject: "rejected", Reschedule: "rescheduled", Extend: "extended"}


def settle(work: Work, calls: list[Settle]) -> None:
    seqs = [receipt[0] for call in calls for receipt in call.receipts]
    leased = {row[0]: row for row in work.session.rows("lock_leased", seqs=seqs)}
    missing: set[int] = set()
    for call in calls:
        settle_one = _ack_one if isinstance(call.verdict, Ack) else _settle_one
        outcomes = []
        for seq, token in call.receipts:
            row = leased.get(seq)
            if row is None:
                missing.add(seq)
                outcomes.append(Outcome.NOT_FOUND)
            elif row[1] != token:
                outcomes.append(Outcome.STALE)
            else:
                settle_one(work, call, row, leased)
                outcomes.append(Outcome.DONE)
        call.result = outcomes
    work.flush()
    groups.call_up(work)
    work.flush()
    if missing:
        _tell_stale_from_gone(work, calls, missing)


def _ack_one(work: Work, call: Settle, row: Row, leased: dict[int, Row]) -> None:
    """Where nothing hangs on the message and nothing is kept of it, its two rows can simply go: the hot path."""
    seq, _, queue, attempts, marks, expires_at, reason, consumer = row
    policy = work.policy(queue)
    if marks & ~_HARMLESS or expires_at is not None or reason is not None or policy.keep != "none":
        _settle_one(work, call, row, leased)
        return
    del leased[seq]
    changes = work.changes
    changes["delete_leased"].append((seq,))
    changes["delete_message"].append((seq,))
    if policy.audit:
        changes["insert_audit"].append((work.now, queue, seq, "acked", attempts, consumer or work.actor, None))


def _settle_one(work: Work, call: Settle, row: Row, leased: dict[int, Row]) -> None:
    seq, verdict = row[0], call.verdict
    if isinstance(verdict, Extend):
        call.until[seq] = _extend(work, row, verdict)
        return
    del leased[seq]  # whoever comes second in this batch is too late
    conclude(work, hold_leased(work.session, [seq])[0], verdict)


def conclude(work: Work, held: Held, verdict: Verdict) -> None:
    """Writes what the rules make of a verdict about a leased message."""
    policy = policy_of_lease(work, held)
    change = lifecycle.decide(held.standing, verdict, policy, work.now, work.random)
    attempt = held.redeliveries if held.reason is not None else held.attempts
    work.audit_as(held.consumer or work.actor, held.queue, held.seq, _event(verdict), attempt, getattr(verdict, "error", None))
    move(work, held, change)


def _extend(work: Work, row: Row, extend: Extend) -> int:
    seq, _, queue, attempts, marks, _, _, consumer = row
    deadline = None
    if marks & HAS_DEADLINE:
        deadline = dict(work.session.rows("read_deadlines", seqs=[seq])).get(seq)
    until = lifecycle.lease_until(work.now, extend.lease_ms or work.policy(queue).lease_ms, deadline)
    work.session.run("extend_lease", lease_until=until, seq=seq)
    work.audit_as(consumer or work.actor, queue, seq, "extended", attempts)
    return until


def _event(verdict: Verdict) -> str:
    if isinstance(verdict, Nack):
        return "nacked" if verdict.counts else "released"
    return _EVENTS[type(verdict)]


def _tell_stale_from_gone(work: Work, calls: list[Settle], missing: set[int]) -> None:
    """A message that waits again makes its old receipt stale; one that is gone is not found."""
    present = {row[0] for row in work.session.rows("find_messages", seqs=sorted(missing))}
    for call in calls:
        call.result = [
            Outcome.STALE if outcome is Outcome.NOT_FOUND and receipt.seq in present else outcome
            for outcome, receipt in zip(call.result or [], call.receipts, strict=True)
        ]
