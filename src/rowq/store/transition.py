"""Moves messages between the state tables as the lifecycle rules decide, together with their keys, groups, expiry and body."""

from __future__ import annotations

import msgspec

from rowq.model import lifecycle
from rowq.model.draft import GROUPED, HAS_DEADLINE, HAS_KV_KEYS, HAS_OWN_ID, KEYED, MODE_MARKS
from rowq.model.lifecycle import Change, Dead, Finished, Waiting
from rowq.model.message import State
from rowq.model.queue import Policy, dead_topic
from rowq.store import groups
from rowq.store.locked_message import LockedMessage, hold_waiting, lock_keys
from rowq.store.place import put_ready, put_scheduled, take_out
from rowq.store.transaction import Transaction


def move(tx: Transaction, held: LockedMessage, change: Change, *, is_behind: bool = False) -> None:
    """Moves a message from its state into the one that the change says. `is_behind`: another message leads its group."""
    take_out(tx, held)
    if held.marks & HAS_KV_KEYS and lifecycle.is_undelivered(held.standing, change):
        _write_kv(tx, held)
    match change:
        case Waiting():
            put_waiting(tx, held, change, is_behind=is_behind)
        case Dead():
            _put_dead(tx, held, change)
        case Finished():
            finish(tx, held, change)


def put_waiting(tx: Transaction, held: LockedMessage, waiting: Waiting, *, is_behind: bool = False) -> None:
    """Puts a message back into the queue: ready or scheduled, or blocked behind the head of its group."""
    if held.marks & KEYED and not _regains_key(tx, held):
        gone = msgspec.structs.replace(held, attempts=waiting.attempts)  # as if it had waited: a release does not count as an attempt
        finish(tx, gone, Finished("superseded", tx.policy(held.queue).keep))
        return
    ends_at = lifecycle.ends_at(waiting.expires_at, held.deadline)
    if ends_at is not None:
        tx.changes["insert_expiring"].append((held.seq, held.queue, ends_at))
    if tx.tally is not None:
        tx.tally.returned[held.seq] = waiting.due
    tail = (waiting.attempts, waiting.expires_at, waiting.error)
    if held.marks & GROUPED and held.state is State.DEAD:
        is_behind = not groups.join(tx, held.queue, held.group_key or "", held.seq)
    elif held.marks & GROUPED and not is_behind:
        tx.returning[held.queue, held.group_key or ""].add(held.seq)
    if is_behind:
        tx.changes["insert_blocked"].append((held.queue, held.group_key, held.seq, waiting.due, *tail))
    elif waiting.due > tx.now:
        put_scheduled(tx, held.queue, waiting.due, held.seq, *tail)
    else:
        put_ready(tx, held.queue, held.priority, return_position(tx, held.queue, held.seq), held.seq, *tail)


def return_position(tx: Transaction, queue: str, seq: int) -> int:
    """A retry returns to its old place, unless the queue has `order: ready`."""
    return tx.session.draw_seqs(1) if tx.policy(queue).order == "ready" else seq


def policy_of_lease(tx: Transaction, held: LockedMessage) -> Policy:
    """The queue's policy, with the delivery mode that the consumer asked for, if any."""
    policy = tx.policy(held.queue)
    for mode, mark in MODE_MARKS.items():
        if held.marks & mark:
            return msgspec.structs.replace(policy, delivery=mode)
    return policy


def expire(tx: Transaction, held: LockedMessage, policy: Policy) -> bool:
    """Moves a waiting message out if it is past its TTL or deadline; False if it may still be delivered."""
    change = lifecycle.after_expiry(held.standing, policy, tx.now)
    if change is None:
        return False
    if isinstance(change, Dead):
        tx.audit(held.queue, held.seq, "expired", held.attempts)
    move(tx, held, change)
    return True


def finish(tx: Transaction, held: LockedMessage, finished: Finished) -> None:
    """Finishes a message: writes its history line and deletes its body, depending on what is kept."""
    _leave(tx, held)
    if finished.keep != "none":
        tx.changes["insert_history"].append(
            (
                *(held.seq, held.queue, finished.outcome, held.sent_at, held.leased_at, tx.now, held.attempts, held.consumer),
                *(finished.error, held.message_key, held.group_key, held.priority, held.own_id),
            )
        )
    if finished.keep != "body":
        tx.changes["delete_message"].append(held.seq)
    if finished.keep == "none" and held.marks & HAS_OWN_ID:
        leave_own_id(tx, held.queue, held.own_id or "")
    if finished.outcome != "acked":
        tx.audit(held.queue, held.seq, finished.outcome, held.attempts, finished.error)


def leave_own_id(tx: Transaction, queue: str, own_id: str) -> None:
    """The id stays taken as long as the audit has lines of the message."""
    if tx.policy(queue).audit:
        tx.changes["leave_own_id"].append((tx.now, own_id, queue))
    else:
        tx.changes["delete_own_id"].append((own_id, queue))


def _put_dead(tx: Transaction, held: LockedMessage, dead: Dead) -> None:
    is_new = held.reason is None
    if is_new:
        _leave(tx, held)
        if tx.tally is not None:
            tx.tally.counts[held.queue, f"dead:{dead.reason}"] += 1
        tx.audit(held.queue, held.seq, "dead", held.attempts, dead.reason if dead.error is None else f"{dead.reason}: {dead.error}")
    died_at = tx.now if held.died_at is None else held.died_at
    tx.changes["insert_dead"].append((held.queue, held.seq, dead.due, held.attempts, dead.redeliveries, dead.reason, dead.error, died_at))
    if dead.due is not None:
        tx.wakes_at(dead_topic(held.queue), dead.due)


def _leave(tx: Transaction, held: LockedMessage) -> None:
    """Releases what a message holds while it is in the queue: its key, its place in the group, its expiry."""
    if held.marks & KEYED:
        tx.changes["free_key"].append((held.queue, held.message_key, held.seq))
    if held.marks & GROUPED and held.state in (State.READY, State.SCHEDULED, State.LEASED) and held.reason is None:
        tx.leaving[held.queue, held.group_key or ""].add(held.seq)
    if held.expires_at is not None or held.marks & HAS_DEADLINE:
        tx.changes["delete_expiring"].append(held.seq)


def _regains_key(tx: Transaction, held: LockedMessage) -> bool:
    """False if a newer message waits under the same key. An older one that waits is superseded."""
    tx.flush()  # an earlier message of this transaction may have touched the same key
    waiting = lock_keys(tx.session, held.queue, [held.message_key or ""]).values()
    for twin in hold_waiting(tx.session, [seq for seq in waiting if seq != held.seq]):
        if expire(tx, twin, tx.policy(twin.queue)):
            continue
        if twin.seq > held.seq:
            return False
        take_out(tx, twin)
        finish(tx, twin, Finished("superseded", tx.policy(twin.queue).keep))
    tx.changes["hold_key"].append((held.queue, held.message_key, held.seq))
    return True


def _write_kv(tx: Transaction, held: LockedMessage) -> None:
    for key in msgspec.json.decode(held.kv_keys or b"[]"):
        entry_key = msgspec.json.encode(key).decode()
        tx.changes["copy_to_kv"].append((entry_key, tx.now, held.id, held.seq))
