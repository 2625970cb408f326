"""Takes a message out of one state table and puts it into another. The rules are in rowq.model.lifecycle."""

from __future__ import annotations

from rowq.model.message import State
from rowq.store.locked_message import LockedMessage
from rowq.store.transaction import Transaction


def take_out(tx: Transaction, held: LockedMessage) -> None:
    changes = tx.changes
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
    tx: Transaction, queue: str, priority: int, position: int, seq: int, attempts: int, expires_at: int | None, error: str | None
) -> None:
    tx.changes["insert_ready"].append((queue, -priority, position, seq, attempts, expires_at, error))
    if position != seq:
        tx.changes["insert_moved"].append((seq, position))
    tx.ready_at(queue, -priority, position)


def put_scheduled(tx: Transaction, queue: str, due: int, seq: int, attempts: int, expires_at: int | None, error: str | None) -> None:
    tx.changes["insert_scheduled"].append((queue, due, seq, attempts, expires_at, error))
    tx.wakes_at(queue, due)


def put_back(tx: Transaction, held: LockedMessage, expires_at: int | None) -> None:
    """Puts a message back where it was, with a new expiry."""
    tail = (held.attempts, expires_at, held.error)
    match held.state:
        case State.READY:
            put_ready(tx, held.queue, held.priority, held.place or held.seq, held.seq, *tail)
        case State.SCHEDULED:
            tx.changes["insert_scheduled"].append((held.queue, held.place, held.seq, *tail))
        case State.BLOCKED:
            tx.changes["insert_blocked"].append((held.queue, held.group_key, held.seq, held.place, *tail))
        case _:
            raise AssertionError(f"a {held.state} message does not wait")
