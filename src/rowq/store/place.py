"""The state tables as places: a message is taken out of one and put into another. The rules are elsewhere."""

from __future__ import annotations

from rowq.model.message import State
from rowq.store.locked_message import Held
from rowq.store.transaction import Work


def take_out(work: Work, held: Held) -> None:
    changes = work.changes
    match held.state:
        case State.LEASED:
            changes["delete_leased"].append(held.seq)
        case State.READY:
            changes["delete_ready"].append((held.queue, -held.priority, held.place, held.seq))
            if held.place != held.seq:
                changes["delete_moved"].append(held.seq)
        case State.SCHEDULED:
            changes["delete_scheduled"].append(held.seq)
        case State.BLOCKED:
            changes["delete_blocked"].append((held.queue, held.group_key, held.seq))
        case State.DEAD:
            changes["delete_dead"].append((held.queue, held.seq))


def put_ready(
    work: Work, queue: str, priority: int, position: int, seq: int, attempts: int, expires_at: int | None, error: str | None
) -> None:
    work.changes["insert_ready"].append((queue, -priority, position, seq, attempts, expires_at, error))
    if position != seq:
        work.changes["insert_moved"].append((seq, position))
    work.ready_at(queue, -priority, position)


def put_scheduled(work: Work, queue: str, due: int, seq: int, attempts: int, expires_at: int | None, error: str | None) -> None:
    work.changes["insert_scheduled"].append((queue, due, seq, attempts, expires_at, error))
    work.wakes_at(queue, due)


def put_back(work: Work, held: Held, expires_at: int | None) -> None:
    """Into the very place it was taken out of, with another expiry."""
    tail = (held.attempts, expires_at, held.error)
    match held.state:
        case State.READY:
            put_ready(work, held.queue, held.priority, held.place or held.seq, held.seq, *tail)
        case State.SCHEDULED:
            work.changes["insert_scheduled"].append((held.queue, held.place, held.seq, *tail))
        case State.BLOCKED:
            work.changes["insert_blocked"].append((held.queue, held.group_key, held.seq, held.place, *tail))
        case _:
            raise AssertionError(f"a {held.state} message does not wait")
