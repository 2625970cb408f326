"""The registry of consumers: those of a queue register and send heartbeats, and learn their place among the living ones.

Nothing here needs a sync: a consumer that was lost learns it at its next heartbeat and registers again.
"""

from __future__ import annotations

from collections.abc import Callable

from rowq.model.member import MOST_SHARES, ConsumerLook, Member, Membership, check_room, is_alive, living, membership, overview
from rowq.store.dialect import Row, Session
from rowq.store.transaction import Transaction

KEPT_MS = 86_400_000
"""How long silent consumers stay registered if no other consumer of their queue removes them."""
MOST_LISTED = 1_000
MOST_COUNTED = 100_000
"""How many leased messages are counted, in all queues: an operator should not have to wait for the rest."""


def register(tx: Transaction, queue: str, id: str, dead_after_ms: int) -> Membership:
    """The new consumer's `born_at` is later than that of all others, whatever the clock says."""
    others = [row for row in tx.session.rows("read_consumers", queue=queue) if row[0] != id]
    born_at = max([tx.now, *(row[1] + 1 for row in others)])
    me = membership(id, living([*others, (id, born_at, tx.now)], tx.now, dead_after_ms))
    check_room(queue, me)
    if len(others) >= MOST_SHARES:
        _remove_silent(tx, queue, others, dead_after_ms)
    tx.session.write("insert_consumer", queue=queue, id=id, born_at=born_at, beat_at=tx.now)
    return me


def beat(tx: Transaction, queue: str, id: str, dead_after_ms: int, remove_dead: bool) -> Membership | None:
    """None if the consumer was considered dead and is no longer registered."""
    cutoff = tx.now - dead_after_ms
    if not tx.session.run("beat", queue=queue, id=id, beat_at=tx.now, cutoff=cutoff):
        _remove(tx, [(queue, id)], cutoff)
        return None
    rows = tx.session.rows("read_consumers", queue=queue)
    if remove_dead:
        _remove_silent(tx, queue, rows, dead_after_ms)
    return membership(id, living(rows, tx.now, dead_after_ms))


def leave(tx: Transaction, queue: str, id: str) -> None:
    tx.session.write("delete_consumer", queue=queue, id=id)


def members(session: Session, queue: str, now: int, dead_after_ms: int) -> list[Member]:
    return living(session.rows("read_consumers", queue=queue), now, dead_after_ms)


def everyone(session: Session, now: int, dead_after_ms: int, sees: Callable[[str], bool] | None = None) -> list[ConsumerLook]:
    """The consumers of all queues that the caller may see, up to a limit."""
    registered = [row for row in session.rows("read_all_consumers", limit=MOST_SHARES) if sees is None or sees(row[0])]
    counted = [row for row in session.rows("count_in_flight", limit=MOST_COUNTED) if sees is None or sees(row[0])]
    held = {(queue, consumer): (count, leased_at) for queue, consumer, count, leased_at in counted}
    return overview(registered, held, now, dead_after_ms)[:MOST_LISTED]


def retire(tx: Transaction, limit: int) -> int:
    """Removes consumers that have been silent for a day."""
    cutoff = tx.now - KEPT_MS
    rows = tx.session.rows("list_silent_consumers", cutoff=cutoff, limit=limit)
    _remove(tx, rows, cutoff)
    return len(rows)


def _remove_silent(tx: Transaction, queue: str, rows: list[Row], dead_after_ms: int) -> None:
    silent = [(queue, row[0]) for row in rows if not is_alive(row[2], tx.now, dead_after_ms)]
    _remove(tx, silent, tx.now - dead_after_ms)


def _remove(tx: Transaction, keys: list[Row], cutoff: int) -> None:
    """Removes those still silent: a consumer that has just registered again stays. Sorted, so that locks are taken in one order."""
    if keys:
        tx.session.many("delete_silent_consumer", ("queue", "id", "cutoff"), [(*key, cutoff) for key in sorted(keys)])


def take_duty(tx: Transaction, name: str, holder: str, held_until: int) -> bool:
    """True if the holder now has the duty."""
    values = {"name": name, "holder": holder, "now": tx.now, "held_until": held_until}
    if tx.session.run("take_duty", **values):
        return True
    return bool(tx.session.run("offer_duty", name=name) and tx.session.run("take_duty", **values))


def leave_duty(tx: Transaction, name: str, holder: str) -> None:
    tx.session.write("leave_duty", name=name, holder=holder)
