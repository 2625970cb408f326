"""Revoking and quarantine: an operator takes messages away from a stream. Also refuses operations on messages that a stream holds."""

from __future__ import annotations

from collections.abc import Sequence

from rowq.errors import AmbiguousId, HeldByStream, MessageNotFound
from rowq.model.lifecycle import Nack, Reject
from rowq.model.stream import UNTIL_SETTLED
from rowq.store import groups
from rowq.store.dialect import Session
from rowq.store.locked_message import LockedMessage, hold_leased
from rowq.store.lookup import is_named, only, seqs_of
from rowq.store.settle import conclude
from rowq.store.stream.ledger import advance, lock, pieces, unsettled
from rowq.store.transaction import Transaction


def revoke(tx: Transaction, name: str) -> int:
    """Returns all unsettled messages to their queues, as if they had not been delivered; earlier batch numbers become invalid."""
    stream = lock(tx, name)
    receipts = unsettled(tx, stream, stream.next_batch)
    for piece in pieces(receipts):
        _release(tx, [seq for seq, _ in piece])
    groups.promote_next(tx)
    tx.session.write("delete_streamed", stream=name, after=stream.acked_batch, upto=stream.next_batch)
    tx.session.write("revoke_batches", stream=name, after=stream.acked_batch)
    end = stream.next_batch
    advance(tx, stream, epoch=stream.epoch + 1, floor=end, acked_batch=end, next_batch=end + 1)
    for queue in stream.queues:
        tx.audit(queue, None, "stream_revoked", detail=f"{name}: {len(receipts)} messages, in all queues")
    tx.flush()
    return len(receipts)


def quarantine(tx: Transaction, name: str, batch: int, ids: Sequence[str], reason: str | None) -> int:
    """Turns messages of a batch into dead letters. The others keep their places, so the batch is otherwise unchanged."""
    lock(tx, name)
    chosen = _in_batch(tx, name, batch, ids)
    for held in chosen:
        conclude(tx, held, Reject(reason))
    if chosen:
        seqs = [held.seq for held in chosen]
        tx.session.write("quarantine_streamed", stream=name, batch=batch, seqs=seqs, quarantined_at=tx.now)
        _pass_on_heads(tx, name, batch)
    groups.promote_next(tx)
    for queue in sorted({held.queue for held in chosen}):
        tx.audit(queue, None, "quarantined", detail=f"{name}, batch {batch}: {len(chosen)} messages")
    tx.flush()
    return len(chosen)


def refuse_streamed(tx: Transaction, queue: str) -> None:
    """Raises if a stream holds messages of the queue: called before the queue is deleted."""
    row = tx.session.row("find_streamed_of_queue", queue=queue, lease_until=UNTIL_SETTLED)
    if row is not None:
        raise HeldByStream(
            f"the queue {queue!r} has messages in batches of the stream {row[0]!r}: let it settle them, or revoke it, and try again"
        )


def streamed(session: Session, seqs: list[int]) -> dict[int, tuple[str, int]]:
    """The messages that a stream holds, each with its stream and batch."""
    return {seq: (stream, batch) for seq, stream, batch in session.rows("find_streamed", seqs=seqs)} if seqs else {}


def _release(tx: Transaction, seqs: list[int]) -> None:
    """Returns messages to where they were: the head of a group first, the others blocked behind it."""
    messages = hold_leased(tx.session, seqs)
    heads = _heads(tx, {(held.queue, held.group_key) for held in messages if held.group_key is not None})
    for held in messages:
        is_behind = held.group_key is not None and heads.get((held.queue, held.group_key)) != held.seq
        conclude(tx, held, Nack(counts=False, delay=0), is_behind=is_behind)
    tx.flush()


def _heads(tx: Transaction, named: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The heads of groups. While we hold a head, no other transaction can set a new one."""
    heads: dict[tuple[str, str], int] = {}
    for queue in sorted({queue for queue, _ in named}):
        keys = sorted([group for of, group in named if of == queue])
        for piece in pieces(keys):
            heads |= {(queue, group): head for group, head in tx.session.rows("find_heads", queue=queue, groups=piece)}
    return heads


def _in_batch(tx: Transaction, name: str, batch: int, ids: Sequence[str]) -> list[LockedMessage]:
    """Locks the messages with these ids, without those already in quarantine."""
    named = {id: set(seqs_of(tx.session, id, only(None))) for id in ids}
    seqs = set[int]().union(*named.values())
    found = {row[0]: row for row in tx.session.rows("find_in_batch", stream=name, batch=batch, seqs=sorted(seqs))} if seqs else {}
    held = {one.seq: one for one in hold_leased(tx.session, sorted(found))} if found else {}
    for id, those in named.items():
        there = [
            seq
            for seq in those & found.keys()
            if found[seq][1] is not None or (seq in held and is_named(id, held[seq].own_id, seq, held[seq].sent_at))
        ]
        if not there:
            raise MessageNotFound(f"there is no message {id!r} in batch {batch} of the stream {name!r}; nothing was quarantined")
        if len(there) > 1:
            raise AmbiguousId(f"messages of several queues in batch {batch} have the id {id!r}; nothing was quarantined")
    return [one for seq, one in held.items() if found[seq][1] is None]


def _pass_on_heads(tx: Transaction, name: str, batch: int) -> None:
    """If the head of a group has left and others of the group are still in the batch, the first of them becomes the head: messages blocked
    behind them are not promoted before they are settled."""
    left = set(tx.leaving)
    if not left:
        return
    heads = _heads(tx, left)
    remaining: dict[tuple[str, str], int] = {}
    for queue, group, seq in tx.session.rows("list_group_members", stream=name, batch=batch):
        remaining.setdefault((queue, group), seq)
    for key in sorted(left & set(remaining)):
        if heads.get(key) in tx.leaving[key]:
            tx.changes["set_group_head"].append((*key, remaining[key]))
            del tx.leaving[key]
