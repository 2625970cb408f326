"""Settling: ack, nack, reject, reschedule and extend. The receipt's token must be that of the current lease."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from operator import attrgetter

from rowq.ids import NO_RECEIPT, Receipt
from rowq.model import lifecycle
from rowq.model.draft import HARMLESS
from rowq.model.lifecycle import Ack, Extend, Nack, Reject, Reschedule, Settlement
from rowq.model.message import Outcome
from rowq.store import groups
from rowq.store.call import Receive, Settle
from rowq.store.dialect import Acks, Row
from rowq.store.locked_message import LockedMessage, hold_leased
from rowq.store.row import DeliveryRow, LeasedRow, leads
from rowq.store.transaction import Transaction
from rowq.store.transition import move, policy_of_lease

_of_one_run = attrgetter("settlement.__class__", "actor")
_EVENTS: dict[type, str] = {Ack: "acked", Reject: "rejected", Reschedule: "rescheduled", Extend: "extended"}


def settle(tx: Transaction, calls: list[Settle], *, promotes_next: bool = True) -> None:
    """`promotes_next=False` if more batches follow: the caller then promotes the next message of each group at the end."""
    done = ack_at_once(tx, calls) if tx.session.does_at_once else set()
    seqs = [receipt[0] for call in calls for receipt in call.receipts if receipt not in done and receipt not in call.done]
    leased = {row[LeasedRow.SEQ]: row for row in tx.session.rows("lock_leased", seqs=seqs)} if seqs else {}
    missing: set[int] = set()
    for (kind, actor), run in groupby(calls, _of_one_run):
        tx.act_for(actor)
        if kind is Ack:
            _ack(tx, list(run), leased, missing, done)
        else:
            for call in run:
                _settle(tx, call, leased, missing)
    if promotes_next:
        groups.promote_next(tx)
    else:
        tx.flush()
    if missing:
        _tell_stale_from_gone(tx, calls, missing)
        for call in calls:
            if call.doubts:
                _resolve(tx, call)


def _resolve(tx: Transaction, call: Settle) -> None:
    """A delivery that is gone was acked by the attempt whose answer was lost if the audit has an ack of that very moment. Otherwise it is
    unknown whether that attempt or another consumer acked it."""
    told = list(zip(call.receipts, call.result or (), strict=True))
    gone = [receipt[0] for receipt, outcome in told if outcome is Outcome.NOT_FOUND and receipt != NO_RECEIPT]
    acked = {seq for (seq,) in tx.session.rows("find_acked", seqs=gone, leads=leads(gone), moments=list(call.doubts))} if gone else set()
    if acked.issuperset(gone):
        call.result = [Outcome.DONE if receipt[0] in acked else outcome for receipt, outcome in told]
    else:
        call.cannot_tell()


def release(tx: Transaction, calls: list[Receive]) -> None:
    """Returns messages leased to callers that have gone away. Those delivered at most once stay leased: they might be delivered twice."""
    good = [call for call in calls if (call.delivery or tx.policy(call.queue).delivery) != "at_most_once"]
    settle(
        tx,
        [
            Settle([(row[DeliveryRow.SEQ], row[DeliveryRow.TOKEN]) for row in call.result or ()], Nack(counts=False, delay=0))
            for call in good
        ],
    )


def ack_at_once(tx: Transaction, calls: list[Settle]) -> set[Receipt]:
    """Acks with one statement messages without options in queues that keep nothing of them; returns their receipts."""
    queues, audited = tx.policies.keeping_nothing()
    by_actor: defaultdict[str | None, list[Receipt]] = defaultdict(list)
    for call in calls:
        if isinstance(call.settlement, Ack) and call.reaches is None and queues:
            by_actor[call.actor or tx.own_actor].extend([receipt for receipt in call.receipts if receipt not in call.done])
    done: set[Receipt] = set()
    for actor, receipts in by_actor.items():
        given = sorted(set(receipts) - done)
        acks = Acks([seq for seq, _ in given], [token for _, token in given], queues, audited, tx.now, actor)
        if tx.tally is None:
            went = tx.session.ack_all(acks)
            done.update(given if went is None else [receipt for receipt in given if receipt[1] in went])
            continue
        for seq, token, queue, leased_at in tx.session.ack_each(acks):
            done.add((seq, token))
            tx.tally.counts[queue, "acked"] += 1
            tx.tally.acked.append((queue, leased_at))
    return done


def _ack(tx: Transaction, calls: list[Settle], leased: dict[int, Row], missing: set[int], done: set[Receipt]) -> None:
    """The hot path: of messages without options, if nothing of them is kept, two rows are deleted, for all calls together."""
    gone: list[Row] = []
    looked_at: list[int] = []
    for call in calls:
        acked = call.done | done.intersection(call.receipts)
        done -= acked  # a second ack in this batch is too late
        outcomes: list[Outcome] = []
        for receipt in call.receipts:
            if receipt in acked:
                acked.remove(receipt)
                outcomes.append(Outcome.DONE)
                continue
            seq, token = receipt
            row = leased.get(seq)
            if row is None or row[LeasedRow.TOKEN] != token or not _is_reached(call, row):
                outcomes.append(_refused(call, row, seq, missing))
                continue
            del leased[seq]  # a second settlement in this batch is too late
            if row[LeasedRow.HAS_EXTRAS] or row[LeasedRow.MARKS] & ~HARMLESS or tx.policy(row[LeasedRow.QUEUE]).keep != "none":
                looked_at.append(seq)
            else:
                gone.append(row)
            outcomes.append(Outcome.DONE)
        call.result = outcomes
    held = {one.seq: one for one in hold_leased(tx.session, looked_at)} if looked_at else {}
    for seq in looked_at:  # in the order of the receipts, which is that of the history
        conclude(tx, held[seq], Ack())
    if gone:
        _delete_acked(tx, gone)


def _delete_acked(tx: Transaction, rows: list[Row]) -> None:
    if tx.tally is not None:
        for row in rows:
            tx.tally.counts[row[LeasedRow.QUEUE], "acked"] += 1
            tx.tally.acked.append((row[LeasedRow.QUEUE], row[LeasedRow.LEASED_AT]))
    _audit_acks(tx, [row for row in rows if tx.policy(row[LeasedRow.QUEUE]).audit])
    seqs = [row[LeasedRow.SEQ] for row in rows]
    tx.changes["delete_leased"].extend(seqs)
    tx.changes["delete_message"].extend(seqs)


def _audit_acks(tx: Transaction, rows: list[Row]) -> None:
    if len(rows) == 1:
        seq, _, queue, _, _, attempts, consumer, _ = rows[0]
        tx.changes["insert_audit"].append((tx.now, queue, seq, "acked", attempts, consumer or tx.actor, None))
    elif tx.session.writes_runs:
        tx.audit_runs("acked", [(seq, queue, attempts, consumer or tx.actor) for seq, _, queue, _, _, attempts, consumer, _ in rows])
    elif rows:
        tx.session.write("audit_acked", seqs=[row[LeasedRow.SEQ] for row in rows], at=tx.now, actor=tx.actor)


def _settle(tx: Transaction, call: Settle, leased: dict[int, Row], missing: set[int]) -> None:
    outcomes = []
    for seq, token in call.receipts:
        row = leased.get(seq)
        if row is None or row[LeasedRow.TOKEN] != token or not _is_reached(call, row):
            outcomes.append(_refused(call, row, seq, missing))
        else:
            _settle_one(tx, call, row, leased)
            outcomes.append(Outcome.DONE)
    call.result = outcomes


def _is_reached(call: Settle, row: Row) -> bool:
    return call.reaches is None or call.reaches(row[LeasedRow.QUEUE])


def _refused(call: Settle, row: Row | None, seq: int, missing: set[int]) -> Outcome:
    if row is not None:
        return Outcome.STALE if _is_reached(call, row) else Outcome.NOT_FOUND
    missing.add(seq)
    return Outcome.NOT_FOUND


def _settle_one(tx: Transaction, call: Settle, row: Row, leased: dict[int, Row]) -> None:
    seq, settlement = row[LeasedRow.SEQ], call.settlement
    if isinstance(settlement, Extend):
        call.until[seq] = _extend(tx, row, settlement)
        return
    del leased[seq]  # a second settlement in this batch is too late
    conclude(tx, hold_leased(tx.session, [seq])[0], settlement)


def conclude(tx: Transaction, held: LockedMessage, settlement: Settlement, *, is_behind: bool = False) -> None:
    """Applies a settlement to a leased message by the rules. `is_behind`: another message leads its group."""
    policy = policy_of_lease(tx, held)
    change = lifecycle.decide(held.standing, settlement, policy, tx.now, tx.random)
    tx.audit_as(held.consumer or tx.actor, held.queue, held.seq, _event(settlement), held.deliveries, getattr(settlement, "error", None))
    if tx.tally is not None and isinstance(settlement, Ack):
        tx.tally.acked.append((held.queue, held.leased_at or tx.now))
    move(tx, held, change, is_behind=is_behind)


def _extend(tx: Transaction, row: Row, extend: Extend) -> int:
    held = hold_leased(tx.session, [row[LeasedRow.SEQ]])[0]
    deadline = held.deadline if held.reason is None else None  # a dead letter is past all deadlines
    until = lifecycle.lease_until(tx.now, extend.lease_ms or tx.policy(held.queue).lease_ms, deadline)
    tx.session.write("extend_lease", lease_until=until, seq=held.seq)
    tx.audit_as(held.consumer or tx.actor, held.queue, held.seq, "extended", held.deliveries)
    return until


def _event(settlement: Settlement) -> str:
    if isinstance(settlement, Nack):
        return "nacked" if settlement.counts else "released"
    return _EVENTS[type(settlement)]


def _tell_stale_from_gone(tx: Transaction, calls: list[Settle], missing: set[int]) -> None:
    """The receipt of a message that still exists is stale; that of a message that is gone is not found."""
    present: dict[int, str] = dict(tx.session.rows("find_messages", seqs=sorted(missing)))
    for call in calls:
        reaches = call.reaches or (lambda queue: True)
        call.result = [
            Outcome.STALE if outcome is Outcome.NOT_FOUND and receipt[0] in present and reaches(present[receipt[0]]) else outcome
            for outcome, receipt in zip(call.result or [], call.receipts, strict=True)
        ]
