"""Sweeping: what time alone makes necessary. Receives take up a little of it on their way, upkeep the rest, with the same functions."""

from __future__ import annotations

from rowq.model import lifecycle
from rowq.model.lifecycle import Finished
from rowq.model.message import State
from rowq.store import groups
from rowq.store.locked_message import Held, hold, hold_anywhere, hold_leased
from rowq.store.place import put_ready, take_out
from rowq.store.transaction import Look, Work
from rowq.store.transition import expire, finish, leave_own_id, move, policy_of_lease, return_position

LATE_MS = 1_000
"""Upkeep leaves an expired lease alone for this long: a consumer that is only a little late may still settle."""


def take_up(work: Work, queue: str, limit: int, look: Look) -> None:
    """Due messages and expired leases of a queue, back into ready: somebody is asking for them."""
    due = take_due(work, queue, limit, look.floor)
    expired = take_lease_expired(work, queue, work.now, limit, look.floor)
    look.is_complete = due < limit and expired < limit


def take_due(work: Work, queue: str, limit: int, floor: int = -1) -> int:
    rows = work.session.rows("take_due", queue=queue, now=work.now, floor=floor, limit=limit)
    for seq, _, attempts, expires_at, error, priority in rows:
        work.changes["delete_scheduled"].append(seq)
        put_ready(work, queue, priority, return_position(work, queue, seq), seq, attempts, expires_at, error)
    work.flush()
    return len(rows)


def take_lease_expired(work: Work, queue: str, until: int, limit: int, floor: int = -1) -> int:
    seqs = [row[0] for row in work.session.rows("take_lease_expired", queue=queue, now=until, floor=floor, limit=limit)]
    for held in hold_leased(work.session, seqs) if seqs else []:
        policy = policy_of_lease(work, held)
        work.audit_as(held.consumer, held.queue, held.seq, "lease_expired", held.deliveries)
        move(work, held, lifecycle.after_lease_expiry(held.standing, policy, work.now, work.random))
    groups.call_up(work)
    return len(seqs)


def take_ended(work: Work, limit: int) -> tuple[int, int]:
    """Waiting messages of all queues at their TTL or deadline: how many were looked at, and how many of them it was over with."""
    rows = work.session.rows("take_ended", now=work.now, limit=limit)
    gone = {row[0] for row in rows}
    ended = 0
    for held in hold_anywhere(work.session, sorted(gone)) if gone else []:
        ended += _end(work, held)
        gone.discard(held.seq)
    work.changes["delete_expiring"].extend(gone)
    groups.call_up(work)
    return len(rows), ended


def retire_dead(work: Work, queue: str, limit: int) -> int:
    """Dead letters older than the queue's dlq_ttl."""
    ttl = work.policy(queue).dlq_ttl_ms
    if not ttl:
        return 0
    seqs = [row[0] for row in work.session.rows("list_old_dead", queue=queue, cutoff=work.now - ttl, limit=limit)]
    remove_dead(work, queue, seqs)
    return len(seqs)


def remove_dead(work: Work, queue: str, seqs: list[int]) -> None:
    for held in hold(work.session, seqs, State.DEAD) if seqs else []:
        take_out(work, held)
        finish(work, held, Finished("expired", "none"))
        if work.tally is not None:  # a dead letter that retires has not expired a second time
            work.tally.counts[queue, "expired"] -= 1
            work.tally.counts[queue, "retired"] += 1
    work.flush()


def retire_history(work: Work, queue: str, limit: int) -> int:
    """Finished messages older than the queue's retention."""
    retention = work.policy(queue).retention_ms
    if not retention:
        return 0
    seqs = [row[0] for row in work.session.rows("list_old_history", queue=queue, cutoff=work.now - retention, limit=limit)]
    forget_finished(work, queue, seqs)
    work.flush()
    return len(seqs)


def forget_finished(work: Work, queue: str, seqs: list[int]) -> None:
    for (own_id,) in work.session.rows("find_finished_own_ids", seqs=seqs) if seqs else []:
        leave_own_id(work, queue, own_id)
    newest = work.session.rows("find_newest")[0][1]
    if newest in seqs:
        work.session.write("hollow_history", seq=newest)
    work.session.write("delete_hollow_history")
    work.changes["delete_history"].extend(seq for seq in seqs if seq != newest)
    work.changes["delete_message"].extend(seqs)


def retire_audit(work: Work, after: int, shortest_ms: int, limit: int) -> tuple[int, int | None]:
    """Lines past their queue's audit_retention. Returns how many went, and behind which line to go on; None at the first young one."""
    rows = work.session.rows("list_audit", after=after, limit=limit)
    old = [row for row in rows if row[1] <= work.now - shortest_ms]
    newest = work.session.rows("find_newest")[0][0]
    gone = [id for id, at, queue in old if (0 < work.policy(queue).audit_retention_ms <= work.now - at if queue else id != newest)]
    if newest in gone:
        work.session.write("hollow_audit", id=newest, now=work.now)
    work.changes["delete_audit"].extend(id for id in gone if id != newest)
    work.flush()
    return len(gone), old[-1][0] if old and len(old) == limit else None


def retire_own_ids(work: Work, queue: str, limit: int) -> int:
    """Ids of messages that are gone, once the audit no longer tells their story."""
    retention = work.policy(queue).audit_retention_ms
    if not retention:
        return 0
    rows = work.session.rows("list_gone_own_ids", queue=queue, cutoff=work.now - retention, limit=limit)
    work.changes["delete_own_id"].extend(rows)
    work.flush()
    return len(rows)


def _end(work: Work, held: Held) -> bool:
    if held.state in (State.LEASED, State.DEAD):
        work.changes["delete_expiring"].append(held.seq)  # in flight it is immune; on return it is written again
        return False
    if expire(work, held, work.policy(held.queue)):
        return True
    if held.expires_at is not None:
        work.changes["insert_expiring"].append((held.seq, held.queue, held.expires_at))
    else:
        work.changes["delete_expiring"].append(held.seq)
    return False
