"""Ordered groups: only the head of a group is ready, scheduled or leased; the rest is blocked behind it.

A transaction that adds a message to a group, or removes its head permanently, locks the group's row first. Without that, an ack and a
send that cross would leave the group stuck.
"""

from __future__ import annotations

from collections import defaultdict

from rowq.model.message import State
from rowq.store.locked_message import LockedMessage, hold, lock_groups
from rowq.store.place import put_ready, put_scheduled, take_out
from rowq.store.transaction import Transaction

_PIECE = 1_000
"""MariaDB does not use the index for longer lists."""


def join(tx: Transaction, queue: str, group: str, seq: int) -> bool:
    """True if a returning message becomes the head of its group, False if it must stay behind the current head.

    Order is by sending: a younger head that is still waiting steps back. A leased head keeps its turn and steps back only if it returns.
    """
    tx.flush()
    head = lock_groups(tx.session, queue, [group]).get(group)
    if head is not None and (head < seq or not _steps_back(tx, head)):
        return False
    tx.changes["set_group_head"].append((queue, group, seq))
    return True


def _steps_back(tx: Transaction, head: int) -> bool:
    for held in hold(tx.session, [head], State.SCHEDULED, State.READY):
        due = held.place if held.state is State.SCHEDULED else tx.now
        take_out(tx, held)
        tx.changes["insert_blocked"].append((held.queue, held.group_key, held.seq, due, held.attempts, held.expires_at, held.error))
        return True
    return False


def promote_next(tx: Transaction) -> None:
    """Writes the gathered changes. Then, if a head has left permanently, or has returned while an older message of its group waits, the
    next message becomes the head; an empty group is removed."""
    tx.flush()
    if not tx.leaving and not tx.returning:
        return
    by_queue: defaultdict[str, list[str]] = defaultdict(list)
    for queue, group in sorted({*tx.leaving, *tx.returning}):
        by_queue[queue].append(group)
    for queue, groups in by_queue.items():
        for start in range(0, len(groups), _PIECE):
            heads = lock_groups(tx.session, queue, groups[start : start + _PIECE])
            left = {group for group, head in heads.items() if head in tx.leaving.get((queue, group), ())}
            returned = {group: head for group, head in heads.items() if head in tx.returning.get((queue, group), ())}
            left |= _overtaken(tx, queue, returned)
            while left:
                left -= _follow(tx, queue, left)
    tx.leaving.clear()
    tx.returning.clear()
    tx.flush()


def _overtaken(tx: Transaction, queue: str, returned: dict[str, int]) -> set[str]:
    """Groups whose returning head has stepped back behind an older message: a dead letter that was redriven meanwhile."""
    if not returned:
        return set()
    following: dict[str, int | None] = dict(tx.session.rows("find_following", queue=queue, groups=sorted(returned)))
    older = [group for group, head in returned.items() if (first := following.get(group)) is not None and first < head]
    return {group for group in older if _steps_back(tx, returned[group])}


def _follow(tx: Transaction, queue: str, left: set[str]) -> set[str]:
    """Gives groups without a head their next one; returns the groups that are finished.

    Another transaction may rewrite or remove a blocked row between the look and the lock: the caller then looks again."""
    following: dict[str, int | None] = dict(tx.session.rows("find_following", queue=queue, groups=sorted(left)))
    ended = {group for group in left if following.get(group) is None}
    tx.changes["delete_group_head"].extend((queue, group) for group in sorted(ended))
    held = hold(tx.session, sorted(seq for seq in following.values() if seq is not None), State.BLOCKED)
    for one in held:
        tx.changes["set_group_head"].append((queue, one.group_key, one.seq))
        _release(tx, one)
    return ended | {one.group_key or "" for one in held}


def _release(tx: Transaction, held: LockedMessage) -> None:
    take_out(tx, held)
    tail = (held.attempts, held.expires_at, held.error)
    if held.place is not None and held.place > tx.now:
        put_scheduled(tx, held.queue, held.place, held.seq, *tail)
    else:
        put_ready(tx, held.queue, held.priority, held.seq, held.seq, *tail)
