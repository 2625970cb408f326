"""What operators do: settings, purge, delete. Bulk operations run in batches of one transaction each. Dead letters: see dead_letter.py."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rowq.errors import HeldByStream
from rowq.model.lifecycle import Finished
from rowq.model.message import State
from rowq.model.queue import Settings, change, dead_topic
from rowq.store import groups
from rowq.store.expiry import forget_finished
from rowq.store.locked_message import LockedMessage, hold, hold_anywhere
from rowq.store.lookup import Reach, insist_on_queue, is_named, not_found, seq_of
from rowq.store.place import take_out
from rowq.store.stream.revoke import refuse_streamed, streamed
from rowq.store.transaction import Transaction
from rowq.store.transition import finish


def configure(tx: Transaction, queue: str, changes: dict[str, object]) -> Settings:
    change(tx.policies.known(tx.session, queue).settings, **changes)  # raises before anything is written
    tx.change_settings()  # also locks out concurrent changes: the settings are read after it
    after = change(tx.policies.known(tx.session, queue).settings, **changes)
    tx.policies.write(tx.session, queue, after, tx.now)
    tx.forget_policy(queue)
    event = _configuring_event(changes)
    tx.audit(queue, None, event, detail=None if event != "configured" else msgspec.json.encode(changes, enc_hook=str).decode())
    tx.flush()
    if not tx.policy(queue).paused:
        tx.woken[queue] += 1
        tx.woken[dead_topic(queue)] += 1
    return after


def adopt(tx: Transaction, queue: str, changes: dict[str, object]) -> None:
    """Creates the queue with these settings; an existing queue keeps its own."""
    if tx.session.rows("read_settings", queues=[queue]):
        return
    tx.change_settings()  # takes the lock: another process may be creating the queue with other settings
    if not tx.session.rows("read_settings", queues=[queue]):
        configure(tx, queue, changes)


def pause(tx: Transaction, queue: str, changes: dict[str, object]) -> None:
    """Pauses or resumes an existing queue."""
    insist_on_queue(tx.session, queue, names=False)
    configure(tx, queue, changes)


def delete_queue(tx: Transaction, queue: str) -> None:
    """Deletes the settings, after the messages have been purged in batches. Messages sent meanwhile create the queue again."""
    insist_on_queue(tx.session, queue, names=False)
    refuse_streamed(tx, queue)
    if any(tx.session.rows("count_states", queue=queue)[0][:-1]):
        tx.change_settings()
        tx.policies.write(tx.session, queue, Settings(), tx.now)
    else:
        tx.session.write("delete_queue", name=queue)
        tx.session.write("delete_bucket", queue=queue)
        tx.session.write("delete_consumers_of_queue", queue=queue)
        tx.session.write("delete_own_ids_of_queue", queue=queue)
        tx.session.write("delete_requests_of_queue", first=f"{queue}/", last=f"{queue}0")
        tx.change_settings()
        if tx.tally is not None:
            tx.tally.deleted.append(queue)
    tx.forget_policy(queue)
    tx.audit(queue, None, "queue_deleted")
    tx.flush()


def purge(tx: Transaction, queue: str, state: State, seqs: list[int]) -> int:
    """Removes the messages that are still in the state, except those that a stream holds."""
    if state is State.FINISHED:
        still = [row[0] for row in tx.session.rows("find_finished", seqs=seqs)]
        forget_finished(tx, queue, still)
        if tx.tally is not None:
            tx.tally.counts[queue, "purged"] += len(still)
        tx.flush()
        return len(still)
    held = _still_in(tx, state, seqs)
    for one in held:
        remove(tx, one, "purged")
    groups.promote_next(tx)
    return len(held)


def _still_in(tx: Transaction, state: State, seqs: list[int]) -> list[LockedMessage]:
    """A leased dead letter still counts as dead."""
    if state not in (State.LEASED, State.DEAD):
        return hold(tx.session, seqs, state)
    kept = streamed(tx.session, seqs)
    leased = [one for one in hold(tx.session, seqs, State.LEASED) if one.seq not in kept]
    if state is State.LEASED:
        return [one for one in leased if one.reason is None]
    return [one for one in leased if one.reason is not None] + hold(tx.session, seqs, State.DEAD)


def note_purge(tx: Transaction, count: int, *, queue: str, states: Sequence[State]) -> None:
    tx.audit(queue, None, "purged", detail=f"{count} messages: {', '.join(states)}")
    tx.flush()


def delete(tx: Transaction, id: str, reach: Reach) -> None:
    """Deletes a message in any state; a consumer that holds it finds its receipt gone."""
    seq = seq_of(tx.session, id, reach)
    held = [one for one in hold_anywhere(tx.session, [seq]) if reach(one.queue) and is_named(id, one.own_id, one.seq, one.sent_at)]
    if held:
        if held[0].state is State.LEASED and (holder := streamed(tx.session, [seq]).get(seq)):
            raise HeldByStream(
                f"the message {id!r} is in batch {holder[1]} of the stream {holder[0]!r}: quarantine it, or revoke the stream first"
            )
        remove(tx, held[0], "deleted")
        queue = held[0].queue
    else:
        row = tx.session.row("find_finished_message", seq=seq)
        if row is None or not reach(row[0]) or not is_named(id, row[2], seq, row[1]):
            raise not_found(id)
        forget_finished(tx, row[0], [seq])
        tx.audit(row[0], seq, "deleted")
        queue = row[0]
    tx.audit(queue, None, "message_deleted", detail=id)
    groups.promote_next(tx)


def entry_key(parts: list[str | int]) -> str:
    return msgspec.json.encode(parts).decode()


def forget(tx: Transaction, key: str) -> bool:
    return tx.session.run("delete_kv", entry_key=key) > 0


def remove(tx: Transaction, held: LockedMessage, event: str) -> None:
    take_out(tx, held)
    finish(tx, held, Finished(event, "none"))


def _configuring_event(changes: dict[str, object]) -> str:
    if set(changes) == {"paused"}:
        return "paused" if changes["paused"] else "resumed"
    return "configured"
