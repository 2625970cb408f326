"""Settling: what consumers say about their deliveries. The receipt's token must be the one of the current lease."""

from __future__ import annotations

from collections import defaultdict

from rowq.ids import NO_RECEIPT, Receipt
from rowq.model import lifecycle
from rowq.model.draft import HARMLESS
from rowq.model.lifecycle import Ack, Extend, Nack, Reject, Reschedule, Verdict
from rowq.model.message import Outcome
from rowq.store import groups
from rowq.store.call import Receive, Settle
from rowq.store.dialect import Acks, Row
from rowq.store.locked_message import Held, hold_leased
from rowq.store.transaction import Work
from rowq.store.transition import move, policy_of_lease

_EVENTS: dict[type, str] = {Ack: "acked", Reject: "rejected", Reschedule: "rescheduled", Extend: "extended"}


def settle(work: Work, calls: list[Settle], *, calls_up: bool = True) -> None:
    """`calls_up=False` where there are more pieces to come: whoever says so calls up the next of each group at the end."""
    done = ack_at_once(work, calls) if work.session.does_at_once else set()
    seqs = [receipt[0] for call in calls for receipt in call.receipts if receipt not in done and receipt not in call.done]
    leased = {row[0]: row for row in work.session.rows("lock_leased", seqs=seqs)} if seqs else {}
    missing: set[int] = set()
    for call in calls:
        work.act_for(call.actor)
        if isinstance(call.verdict, Ack):
            _ack(work, call, leased, missing, done)
        else:
            _settle(work, call, leased, missing)
    if calls_up:
        groups.call_up(work)
    else:
        work.flush()
    if missing:
        _tell_stale_from_gone(work, calls, missing)
        for call in calls:
            if call.doubts:
                _resolve(work, call)


def _resolve(work: Work, call: Settle) -> None:
    """What is gone was acked by a try whose answer was lost, if the audit has it at that very moment. Else by that, or by another consumer:
    nobody can tell."""
    told = list(zip(call.receipts, call.result or (), strict=True))
    gone = [receipt[0] for receipt, outcome in told if outcome is Outcome.NOT_FOUND and receipt != NO_RECEIPT]
    acked = {seq for (seq,) in work.session.rows("find_acked", seqs=gone, moments=list(call.doubts))} if gone else set()
    if acked.issuperset(gone):
        call.result = [Outcome.DONE if receipt[0] in acked else outcome for receipt, outcome in told]
    else:
        call.cannot_tell()


def release(work: Work, calls: list[Receive]) -> None:
    """What was leased to those who have gone away without it: back at once, but not where that could deliver a message twice."""
    good = [call for call in calls if (call.delivery or work.policy(call.queue).delivery) != "at_most_once"]
    settle(work, [Settle([(row[0], row[3]) for row in call.result or ()], Nack(counts=False, delay=0)) for call in good])


def ack_at_once(work: Work, calls: list[Settle]) -> set[Receipt]:
    """The receipts that one statement could settle: of messages that nothing hangs on, in queues that keep nothing of them."""
    queues, audited = work.policies.keeping_nothing()
    by_actor: defaultdict[str | None, list[Receipt]] = defaultdict(list)
    for call in calls:
        if isinstance(call.verdict, Ack) and call.reaches is None and queues:
            by_actor[call.actor or work.own_actor].extend([receipt for receipt in call.receipts if receipt not in call.done])
    done: set[Receipt] = set()
    for actor, receipts in by_actor.items():
        given = sorted(set(receipts) - done)
        acks = Acks([seq for seq, _ in given], [token for _, token in given], queues, audited, work.now, actor)
        if work.tally is None:
            went = work.session.ack_all(acks)
            done.update(given if went is None else [receipt for receipt in given if receipt[1] in went])
            continue
        for seq, token, queue, leased_at in work.session.ack_each(acks):
            done.add((seq, token))
            work.tally.counts[queue, "acked"] += 1
            work.tally.acked.append((queue, leased_at))
    return done


def _ack(work: Work, call: Settle, leased: dict[int, Row], missing: set[int], done: set[Receipt]) -> None:
    """Where nothing hangs on a message and nothing is kept of it, its two rows can simply go: the hot path."""
    acked = call.done | done.intersection(call.receipts)
    done -= acked  # whoever says it a second time in this batch is too late
    if len(acked) == len(call.receipts):
        call.result = [Outcome.DONE] * len(call.receipts)
        return
    outcomes: list[Outcome] = []
    gone: list[int] = []
    looked_at: list[int] = []
    audited: list[Row] = []
    tally = work.tally
    for receipt in call.receipts:
        if receipt in acked:
            acked.remove(receipt)
            outcomes.append(Outcome.DONE)
            continue
        seq, token = receipt
        row = leased.get(seq)
        if row is None or row[1] != token or not _is_reached(call, row):
            outcomes.append(_refused(call, row, seq, missing))
            continue
        policy = work.policy(row[2])
        del leased[seq]  # whoever comes second in this batch is too late
        if row[4] or row[3] & ~HARMLESS or policy.keep != "none":
            looked_at.append(seq)
        else:
            gone.append(seq)
            if tally is not None:
                tally.counts[row[2], "acked"] += 1
                tally.acked.append((row[2], row[7]))
            if policy.audit:
                audited.append(row)
        outcomes.append(Outcome.DONE)
    held = {one.seq: one for one in hold_leased(work.session, looked_at)} if looked_at else {}
    for seq in looked_at:  # in the order in which it was said, which is that of the history
        conclude(work, held[seq], Ack())
    _audit_acks(work, audited)
    work.changes["delete_leased"].extend(gone)
    work.changes["delete_message"].extend(gone)
    call.result = outcomes


def _audit_acks(work: Work, rows: list[Row]) -> None:
    if len(rows) == 1:
        seq, _, queue, _, _, attempts, consumer, _ = rows[0]
        work.changes["insert_audit"].append((work.now, queue, seq, "acked", attempts, consumer or work.actor, None))
    elif rows:
        work.session.write("audit_acked", seqs=[row[0] for row in rows], at=work.now, actor=work.actor)


def _settle(work: Work, call: Settle, leased: dict[int, Row], missing: set[int]) -> None:
    outcomes = []
    for seq, token in call.receipts:
        row = leased.get(seq)
        if row is None or row[1] != token or not _is_reached(call, row):
            outcomes.append(_refused(call, row, seq, missing))
        else:
            _settle_one(work, call, row, leased)
            outcomes.append(Outcome.DONE)
    call.result = outcomes


def _is_reached(call: Settle, row: Row) -> bool:
    return call.reaches is None or call.reaches(row[2])


def _refused(call: Settle, row: Row | None, seq: int, missing: set[int]) -> Outcome:
    if row is not None:
        return Outcome.STALE if _is_reached(call, row) else Outcome.NOT_FOUND
    missing.add(seq)
    return Outcome.NOT_FOUND


def _settle_one(work: Work, call: Settle, row: Row, leased: dict[int, Row]) -> None:
    seq, verdict = row[0], call.verdict
    if isinstance(verdict, Extend):
        call.until[seq] = _extend(work, row, verdict)
        return
    del leased[seq]  # whoever comes second in this batch is too late
    conclude(work, hold_leased(work.session, [seq])[0], verdict)


def conclude(work: Work, held: Held, verdict: Verdict, *, is_behind: bool = False) -> None:
    """Writes what the rules make of a verdict about a leased message. `is_behind`: another one leads its group."""
    policy = policy_of_lease(work, held)
    change = lifecycle.decide(held.standing, verdict, policy, work.now, work.random)
    work.audit_as(held.consumer or work.actor, held.queue, held.seq, _event(verdict), held.deliveries, getattr(verdict, "error", None))
    if work.tally is not None and isinstance(verdict, Ack):
        work.tally.acked.append((held.queue, held.leased_at or work.now))
    move(work, held, change, is_behind=is_behind)


def _extend(work: Work, row: Row, extend: Extend) -> int:
    held = hold_leased(work.session, [row[0]])[0]
    deadline = held.deadline if held.reason is None else None  # a dead letter is past all deadlines
    until = lifecycle.lease_until(work.now, extend.lease_ms or work.policy(held.queue).lease_ms, deadline)
    work.session.write("extend_lease", lease_until=until, seq=held.seq)
    work.audit_as(held.consumer or work.actor, held.queue, held.seq, "extended", held.deliveries)
    return until


def _event(verdict: Verdict) -> str:
    if isinstance(verdict, Nack):
        return "nacked" if verdict.counts else "released"
    return _EVENTS[type(verdict)]


def _tell_stale_from_gone(work: Work, calls: list[Settle], missing: set[int]) -> None:
    """A message that waits again makes its old receipt stale; one that is gone is not found."""
    present: dict[int, str] = dict(work.session.rows("find_messages", seqs=sorted(missing)))
    for call in calls:
        reaches = call.reaches or (lambda queue: True)
        call.result = [
            Outcome.STALE if outcome is Outcome.NOT_FOUND and receipt[0] in present and reaches(present[receipt[0]]) else outcome
            for outcome, receipt in zip(call.result or [], call.receipts, strict=True)
        ]
