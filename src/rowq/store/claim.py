"""Claiming: leases messages with one statement instead of several.

Messages without TTL and deadline, which are most, are leased by the statement itself. The others come back locked: they are leased
here, or moved out of the queue if their time is over.
"""

from __future__ import annotations

import msgspec

from rowq.ids import Receipt, new_tokens
from rowq.model import lifecycle
from rowq.model.draft import HAS_DEADLINE, MODE_MARKS
from rowq.model.lifecycle import Ack
from rowq.model.member import Share
from rowq.model.message import Outcome, State
from rowq.model.queue import DeliveryMode, Policy
from rowq.store import groups
from rowq.store.call import Receive, Settle
from rowq.store.dialect import Row, Slots
from rowq.store.head_hint import Taken
from rowq.store.locked_message import hold
from rowq.store.meter import Tally
from rowq.store.notify.notifier import Place
from rowq.store.policy import Policies
from rowq.store.row import DeliveryRow, ReadyRow
from rowq.store.transaction import Transaction
from rowq.store.transition import expire


def claim(tx: Transaction, queue: str, calls: list[Receive], policy: Policy, wanted: int, share: Share | None = None) -> None:
    """Serves calls of one queue; `wanted` is how many messages they may get in total."""
    for call in calls:
        call.result = []
    empty = [call for call in calls for _ in range(call.max)][:wanted]
    while empty:
        empty = _fill(tx, queue, empty, policy, share)
    tx.flush()


def claim_all_or_none(tx: Transaction, queue: str, calls: list[Receive], policy: Policy) -> bool:
    """The same with a single statement; False if one of the messages must be checked first, and then nothing was leased."""
    for call in calls:
        call.result = []
    empty = [call for call in calls for _ in range(call.max)]
    slots = _slots(tx, empty, policy, calls[0].share, is_all_or_none=True)
    rows = _take(tx, queue, slots)
    if not rows and slots.share is not None:
        rows = _take(tx, queue, msgspec.structs.replace(slots, share=None))
    if rows and rows[0][DeliveryRow.TOKEN] is None:
        return False
    _hand_out(tx, rows, empty)
    return True


def _fill(tx: Transaction, queue: str, empty: list[Receive], policy: Policy, share: Share | None) -> list[Receive]:
    """Gives each slot a message; returns the calls whose message had expired."""
    slots = _slots(tx, empty, policy, share)
    rows = _take(tx, queue, slots)
    locked = [number for number, row in enumerate(rows) if row[DeliveryRow.TOKEN] is None]
    left = _lease_locked(tx, rows, locked, empty, slots, policy) if locked else []
    _hand_out(tx, rows, empty)
    return left


def _take(tx: Transaction, queue: str, slots: Slots) -> list[Row]:
    def take(place: Place) -> Taken:
        rows = tx.session.claim(queue, place, slots, tx.now)
        if slots.share is not None:
            return [row[: DeliveryRow.END] for row in rows], rows[0][DeliveryRow.END :] if rows else None
        is_leased = rows and (rows[0][DeliveryRow.TOKEN] is not None or not slots.is_all_or_none)
        return rows, (-rows[-1][DeliveryRow.PRIORITY], rows[-1][DeliveryRow.SEQ]) if is_leased else None

    return tx.heads.take(queue, tx.lowest.get(queue), take, is_choosy=slots.share is not None)


def _hand_out(tx: Transaction, rows: list[Row], empty: list[Receive]) -> None:
    """Hands out the rows that have a token, in the order in which the calls arrived."""
    start = 0
    while start < len(rows):
        call = empty[start]
        end = start + empty.count(call)  # the slots of a call are adjacent
        _give(tx, call, [row for row in rows[start:end] if row[DeliveryRow.TOKEN] is not None])
        start = end


def _give(tx: Transaction, call: Receive, rows: list[Row]) -> None:
    if not rows:
        return
    call.result = [*(call.result or ()), *rows]
    tx.wakes_at(call.topic, min([row[DeliveryRow.UNTIL] for row in rows]))
    if tx.tally is not None:
        tx.tally.counts[call.queue, "delivered"] += len(rows)
        tx.tally.delivered.append(
            (call.queue, [(row[DeliveryRow.SEQ], row[DeliveryRow.ATTEMPT] - 1, row[DeliveryRow.SENT_AT]) for row in rows])
        )


def _slots(tx: Transaction, empty: list[Receive], policy: Policy, share: Share | None, *, is_all_or_none: bool = False) -> Slots:
    actors: list[str | None] = []
    if policy.audit:
        actors = [call.consumer or call.actor or tx.own_actor for call in empty]
    return Slots(
        tokens=new_tokens(len(empty)),
        untils=[tx.now + (call.lease_ms or policy.lease_ms) for call in empty],
        consumers=[call.consumer for call in empty],
        actors=actors,
        mark=MODE_MARKS[empty[0].delivery] if empty[0].delivery else 0,
        is_audited=policy.audit,
        is_counted=tx.tally is not None,
        is_all_or_none=is_all_or_none,
        share=share,
    )


def _lease_locked(tx: Transaction, rows: list[Row], locked: list[int], empty: list[Receive], slots: Slots, policy: Policy) -> list[Receive]:
    """Leases the locked messages that may be delivered, replacing their entries in `rows`, and moves the others out of the queue."""
    mode = empty[0].delivery or policy.delivery
    full = {row[ReadyRow.SEQ]: row for row in tx.session.rows("look_at_ready", seqs=[rows[number][DeliveryRow.SEQ] for number in locked])}
    ended: list[int] = []
    left: list[Receive] = []
    for number in locked:
        call, row = empty[number], full[rows[number][DeliveryRow.SEQ]]
        if is_ended(row, tx.now, mode):
            ended.append(row[ReadyRow.SEQ])
            left.append(call)
        else:
            end = _lease_one(tx, call, row, slots.tokens[number], slots.untils[number], slots.mark, policy)
            rows[number] = (row[ReadyRow.SEQ], call.queue, row[ReadyRow.ATTEMPTS] + 1, slots.tokens[number], end, *row[ReadyRow.BODY])
    if ended:
        route_out(tx, ended, policy, mode)
    return left


def _lease_one(tx: Transaction, call: Receive, row: Row, token: int, until: int, mark: int, policy: Policy) -> int:
    """Leases a message that has a TTL or deadline; returns the end of its lease."""
    seq, ranking, position, attempts, expires_at, error, marks = row[: ReadyRow.MARKS + 1]
    end = (
        lifecycle.lease_until(tx.now, until - tx.now, row[ReadyRow.SENT_AT] + row[ReadyRow.DEADLINE_MS]) if marks & HAS_DEADLINE else until
    )
    tx.changes["delete_ready"].append((call.queue, ranking, position, seq))
    if position != seq:
        tx.changes["delete_moved"].append(seq)
    tx.changes["insert_leased"].append((seq, call.queue, end, token, call.consumer, tx.now, attempts + 1, expires_at, error, marks | mark))
    if policy.audit:
        actor = call.consumer or call.actor or tx.own_actor
        tx.changes["insert_audit"].append((tx.now, call.queue, seq, "delivered", attempts + 1, actor, None))
    return end


def count(tally: Tally, call: Receive, rows: list[Row]) -> None:
    tally.counts[call.queue, "delivered"] += len(rows)
    if not call.from_dead:
        tally.delivered.append(
            (call.queue, [(row[ReadyRow.SEQ], row[ReadyRow.ATTEMPTS], row[ReadyRow.SENT_AT] + row[ReadyRow.DELAY_MS]) for row in rows])
        )


def is_ended(row: Row, now: int, mode: DeliveryMode) -> bool:
    """Whether a ready message is past its TTL or deadline and may not be delivered."""
    expires_at, sent_at, deadline_ms = row[ReadyRow.EXPIRES_AT], row[ReadyRow.SENT_AT], row[ReadyRow.DEADLINE_MS]
    return (expires_at is not None and expires_at <= now) or (
        mode == "at_most_once" and deadline_ms is not None and sent_at + deadline_ms <= now
    )


def route_out(tx: Transaction, ended: list[int], policy: Policy, mode: DeliveryMode) -> None:
    """Moves ready messages that are past their time to the dead letters or out of the store."""
    effective = msgspec.structs.replace(policy, delivery=mode)
    for held in hold(tx.session, ended, State.READY):
        expire(tx, held, effective)
    groups.promote_next(tx)


def may_receive(policies: Policies, calls: list[Receive]) -> Policy | None:
    """The policy of the queue, if all calls ask the same one and nothing must be checked before its messages are leased."""
    first = calls[0]
    if first.from_dead or (first.share and len(calls) > 1):
        return None
    if any(call.topic != first.topic or call.delivery != first.delivery or call.share for call in calls[1:]):
        return None
    policy = policies.remembered(first.queue)
    if policy is None or policy.paused or policy.throughput_limit or (first.delivery or policy.delivery) == "at_most_once":
        return None
    return policy


def may_ack(policies: Policies, calls: list[Settle]) -> bool:
    """Whether one statement can ack deliveries of all the calls."""
    actor = calls[0].actor
    return bool(policies.keeping_nothing()[0]) and all(
        isinstance(call.settlement, Ack) and call.reaches is None and call.actor == actor for call in calls
    )


def share_out(calls: list[Settle], done: set[Receipt]) -> bool:
    """Assigns each acked receipt to one call. True if that completes every call; the rest is settled the general way."""
    for call in calls:
        call.done.update(done.intersection(call.receipts))
        done -= call.done
        if len(call.done) == len(call.receipts):
            call.result = [Outcome.DONE] * len(call.receipts)
    return all(call.result is not None for call in calls)
