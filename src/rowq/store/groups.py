"""Ordered groups: only the head of a group is ready, scheduled or leased; the rest is blocked behind it.

Whoever sends into a group or leaves it for good holds the group's row first. Without that, an ack and a send that cross
would leave the group stuck for ever.
"""

from __future__ import annotations

from collections import defaultdict

from rowq.model.message import State
from rowq.store.held import hold
from rowq.store.places import put_ready, put_scheduled, take_out
from rowq.store.work import Work


def join(work: Work, queue: str, group: str, seq: int) -> bool:
    """True when a message that comes back becomes the head of its group, False when it must stay behind one.

    Order is by sending: a younger head that still waits steps back; one that is leased has its turn already.
    """
    work.flush()
    row = work.session.row("lock_group_heads", queue=queue, groups=[group])
    if row is not None and (row[1] < seq or not _steps_back(work, row[1])):
        return False
    work.changes["set_group_head"].append((queue, group, seq))
    return True


def _steps_back(work: Work, head: int) -> bool:
    for held in hold(work.session, [head], State.READY, State.SCHEDULED):
        due = held.place if held.state is State.SCHEDULED else work.now
        take_out(work, held)
        work.changes["insert_blocked"].append((held.queue, held.group_key, held.seq, due, held.attempts, held.expires_at, held.error))
        return True
    return False


def call_up(work: Work) -> None:
    """Where a head has left for good, the next of its group takes its place; an empty group ends."""
    if not work.leaving:
        return
    work.flush()
    by_queue: defaultdict[str, list[str]] = defaultdict(list)
    for queue, group in sorted(work.leaving):
        by_queue[queue].append(group)
    following: list[int] = []
    for queue, groups in by_queue.items():
        for group, head, successor in work.session.rows("lock_group_heads", queue=queue, groups=groups):
            if head not in work.leaving[queue, group]:
                continue
            if successor is None:
                work.changes["delete_group_head"].append((queue, group))
            else:
                work.changes["set_group_head"].append((queue, group, successor))
                following.append(successor)
    work.leaving.clear()
    if following:
        _release(work, following)


def _release(work: Work, seqs: list[int]) -> None:
    for held in hold(work.session, seqs, State.BLOCKED):
        take_out(work, held)
        tail = (held.attempts, held.expires_at, held.error)
        if held.place is not None and held.place > work.now:
            put_scheduled(work, held.queue, held.place, held.seq, *tail)
        else:
            put_ready(work, held.queue, held.priority, held.seq, held.seq, *tail)
