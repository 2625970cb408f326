"""Due times, lease expiry, TTLs and retention. Receives handle a little of it, maintenance the rest, with the same functions."""

from __future__ import annotations

from rowq.model import lifecycle
from rowq.model.lifecycle import Finished
from rowq.model.message import State
from rowq.store import groups
from rowq.store.locked_message import LockedMessage, hold, hold_anywhere, hold_leased
from rowq.store.place import put_ready, take_out
from rowq.store.transaction import Look, Transaction
from rowq.store.transition import expire, finish, leave_own_id, move, policy_of_lease, return_position

LATE_MS = 1_000
"""Maintenance leaves an expired lease alone for this long: a consumer that is only a little late may still settle."""


def take_up(tx: Transaction, queue: str, limit: int, look: Look) -> None:
    """Makes due messages and expired leases of a queue ready, for a receive that asks for them."""
    due = take_due(tx, queue, limit, look.floor)
    expired = take_lease_expired(tx, queue, tx.now, limit, look.floor)
    look.is_complete = due < limit and expired < limit


def take_due(tx: Transaction, queue: str, limit: int, floor: int = -1) -> int:
    rows = tx.session.rows("take_due", queue=queue, now=tx.now, floor=floor, limit=limit)
    for seq, _, attempts, expires_at, error, priority in rows:
        tx.changes["delete_scheduled"].append(seq)
        put_ready(tx, queue, priority, return_position(tx, queue, seq), seq, attempts, expires_at, error)
    tx.flush()
    return len(rows)


def take_lease_expired(tx: Transaction, queue: str, until: int, limit: int, floor: int = -1) -> int:
    seqs = [row[0] for row in tx.session.rows("take_lease_expired", queue=queue, now=until, floor=floor, limit=limit)]
    for held in hold_leased(tx.session, seqs) if seqs else []:
        policy = policy_of_lease(tx, held)
        tx.audit_as(held.consumer, held.queue, held.seq, "lease_expired", held.deliveries)
        move(tx, held, lifecycle.after_lease_expiry(held.standing, policy, tx.now, tx.random))
    groups.promote_next(tx)
    return len(seqs)


def take_ended(tx: Transaction, limit: int) -> tuple[int, int]:
    """Handles waiting messages of all queues past their TTL or deadline: returns how many were examined, and how many had ended."""
    rows = tx.session.rows("take_ended", now=tx.now, limit=limit)
    gone = {row[0] for row in rows}
    ended = 0
    for held in hold_anywhere(tx.session, sorted(gone)) if gone else []:
        ended += _end(tx, held)
        gone.discard(held.seq)
    tx.changes["delete_expiring"].extend(gone)
    groups.promote_next(tx)
    return len(rows), ended


def retire_dead(tx: Transaction, queue: str, limit: int) -> int:
    """Removes dead letters older than the queue's dlq_ttl."""
    ttl = tx.policy(queue).dlq_ttl_ms
    if not ttl:
        return 0
    seqs = [row[0] for row in tx.session.rows("list_old_dead", queue=queue, cutoff=tx.now - ttl, limit=limit)]
    remove_dead(tx, queue, seqs)
    return len(seqs)


def remove_dead(tx: Transaction, queue: str, seqs: list[int]) -> None:
    for held in hold(tx.session, seqs, State.DEAD) if seqs else []:
        take_out(tx, held)
        finish(tx, held, Finished("expired", "none"))
        if tx.tally is not None:  # count it as retired: it has not expired a second time
            tx.tally.counts[queue, "expired"] -= 1
            tx.tally.counts[queue, "retired"] += 1
    tx.flush()


def retire_history(tx: Transaction, queue: str, limit: int) -> int:
    """Removes finished messages older than the queue's retention."""
    retention = tx.policy(queue).retention_ms
    if not retention:
        return 0
    seqs = [row[0] for row in tx.session.rows("list_old_history", queue=queue, cutoff=tx.now - retention, limit=limit)]
    forget_finished(tx, queue, seqs)
    tx.flush()
    return len(seqs)


def forget_finished(tx: Transaction, queue: str, seqs: list[int]) -> None:
    for (own_id,) in tx.session.rows("find_finished_own_ids", seqs=seqs) if seqs else []:
        leave_own_id(tx, queue, own_id)
    newest = tx.session.rows("find_newest")[0][1]
    if newest in seqs:
        tx.session.write("hollow_history", seq=newest)
    tx.session.write("delete_hollow_history")
    tx.changes["delete_history"].extend(seq for seq in seqs if seq != newest)
    tx.changes["delete_message"].extend(seqs)


def retire_audit(tx: Transaction, after: int, shortest_ms: int, limit: int) -> tuple[int, int | None]:
    """Removes lines past their queue's audit_retention. Returns how many, and after which line to continue; None at the first young one."""
    rows = tx.session.rows("list_audit", after=after, limit=limit)
    old = [row for row in rows if row[1] <= tx.now - shortest_ms]
    newest = tx.session.rows("find_newest")[0][0]
    gone = {
        id: lines for id, at, queue, lines in old if (0 < tx.policy(queue).audit_retention_ms <= tx.now - at if queue else id != newest)
    }
    remove_audit(tx, list(gone), newest)
    tx.flush()
    return sum(gone.values()), old[-1][0] if old and len(old) == limit else None


def remove_audit(tx: Transaction, rows: list[int], newest: int) -> None:
    """The newest row is emptied but kept."""
    if newest in rows:
        tx.session.write("hollow_audit", id=newest, now=tx.now)
    tx.changes["delete_audit"].extend(id for id in rows if id != newest)


def retire_own_ids(tx: Transaction, queue: str, limit: int) -> int:
    """Removes own ids of messages that are gone, once the audit no longer covers them."""
    retention = tx.policy(queue).audit_retention_ms
    if not retention:
        return 0
    rows = tx.session.rows("list_gone_own_ids", queue=queue, cutoff=tx.now - retention, limit=limit)
    tx.changes["delete_own_id"].extend(rows)
    tx.flush()
    return len(rows)


def _end(tx: Transaction, held: LockedMessage) -> bool:
    if held.state in (State.LEASED, State.DEAD):
        tx.changes["delete_expiring"].append(held.seq)  # a leased message does not expire; the row is written again when it returns
        return False
    if expire(tx, held, tx.policy(held.queue)):
        return True
    if held.expires_at is not None:
        tx.changes["insert_expiring"].append((held.seq, held.queue, held.expires_at))
    else:
        tx.changes["delete_expiring"].append(held.seq)
    return False
