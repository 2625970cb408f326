"""What operators do: settings, purge, delete. Large ones come in pieces, a transaction each. Of dead letters see dead.py."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rowq.errors import HeldByStream
from rowq.model.lifecycle import Finished
from rowq.model.message import State
from rowq.model.queue import Settings, change, dead_topic
from rowq.store import groups
from rowq.store.expiry import forget_finished
from rowq.store.locked_message import Held, hold, hold_anywhere
from rowq.store.lookup import Reach, insist_on_queue, is_named, not_found, seq_of
from rowq.store.place import take_out
from rowq.store.stream.revoke import refuse_streamed, streamed
from rowq.store.transaction import Work
from rowq.store.transition import finish


def configure(work: Work, queue: str, changes: dict[str, object]) -> Settings:
    change(work.policies.known(work.session, queue).settings, **changes)  # refuses before anything is written
    work.change_settings()  # also the lock that keeps two changes apart: what is changed is read after it
    after = change(work.policies.known(work.session, queue).settings, **changes)
    work.policies.write(work.session, queue, after, work.now)
    work.forget_policy(queue)
    event = _configuring_event(changes)
    work.audit(queue, None, event, detail=None if event != "configured" else msgspec.json.encode(changes, enc_hook=str).decode())
    work.flush()
    if not work.policy(queue).paused:
        work.woken[queue] += 1
        work.woken[dead_topic(queue)] += 1
    return after


def adopt(work: Work, queue: str, changes: dict[str, object]) -> None:
    """A queue that is not there yet begins with these settings; one that is keeps what it has."""
    if work.session.rows("read_settings", queues=[queue]):
        return
    work.change_settings()  # the lock: somebody else may begin it in this moment, and say more of it
    if not work.session.rows("read_settings", queues=[queue]):
        configure(work, queue, changes)


def pause(work: Work, queue: str, changes: dict[str, object]) -> None:
    """Pauses or resumes a queue that is there."""
    insist_on_queue(work.session, queue, names=False)
    configure(work, queue, changes)


def delete_queue(work: Work, queue: str) -> None:
    """The settings, once its messages have been purged in pieces. Messages that were sent meanwhile make the queue anew."""
    insist_on_queue(work.session, queue, names=False)
    refuse_streamed(work, queue)
    if any(work.session.rows("count_states", queue=queue)[0][:-1]):
        work.change_settings()
        work.policies.write(work.session, queue, Settings(), work.now)
    else:
        work.session.write("delete_queue", name=queue)
        work.session.write("delete_bucket", queue=queue)
        work.session.write("delete_consumers_of_queue", queue=queue)
        work.session.write("delete_own_ids_of_queue", queue=queue)
        work.session.write("delete_requests_of_queue", first=f"{queue}/", last=f"{queue}0")
        work.change_settings()
        if work.tally is not None:
            work.tally.deleted.append(queue)
    work.forget_policy(queue)
    work.audit(queue, None, "queue_deleted")
    work.flush()


def purge(work: Work, queue: str, state: State, seqs: list[int]) -> int:
    """Removes those of the messages that are still in the state. What a stream holds is left to it."""
    if state is State.FINISHED:
        still = [row[0] for row in work.session.rows("find_finished", seqs=seqs)]
        forget_finished(work, queue, still)
        if work.tally is not None:
            work.tally.counts[queue, "purged"] += len(still)
        work.flush()
        return len(still)
    held = _still_in(work, state, seqs)
    for one in held:
        remove(work, one, "purged")
    groups.call_up(work)
    return len(held)


def _still_in(work: Work, state: State, seqs: list[int]) -> list[Held]:
    """A dead letter that somebody has received is one still."""
    if state not in (State.LEASED, State.DEAD):
        return hold(work.session, seqs, state)
    kept = streamed(work.session, seqs)
    leased = [one for one in hold(work.session, seqs, State.LEASED) if one.seq not in kept]
    if state is State.LEASED:
        return [one for one in leased if one.reason is None]
    return [one for one in leased if one.reason is not None] + hold(work.session, seqs, State.DEAD)


def note_purge(work: Work, count: int, *, queue: str, states: Sequence[State]) -> None:
    work.audit(queue, None, "purged", detail=f"{count} messages: {', '.join(states)}")
    work.flush()


def delete(work: Work, id: str, reach: Reach) -> None:
    """Wherever it is; a consumer that holds it finds its receipt gone."""
    seq = seq_of(work.session, id, reach)
    held = [one for one in hold_anywhere(work.session, [seq]) if reach(one.queue) and is_named(id, one.own_id, one.seq, one.sent_at)]
    if held:
        if held[0].state is State.LEASED and (holder := streamed(work.session, [seq]).get(seq)):
            raise HeldByStream(
                f"the message {id!r} is in batch {holder[1]} of the stream {holder[0]!r}: quarantine it, or revoke the stream first"
            )
        remove(work, held[0], "deleted")
        queue = held[0].queue
    else:
        row = work.session.row("find_finished_message", seq=seq)
        if row is None or not reach(row[0]) or not is_named(id, row[2], seq, row[1]):
            raise not_found(id)
        forget_finished(work, row[0], [seq])
        work.audit(row[0], seq, "deleted")
        queue = row[0]
    work.audit(queue, None, "message_deleted", detail=id)
    groups.call_up(work)


def entry_key(parts: list[str | int]) -> str:
    return msgspec.json.encode(parts).decode()


def forget(work: Work, key: str) -> bool:
    return work.session.run("delete_kv", entry_key=key) > 0


def remove(work: Work, held: Held, event: str) -> None:
    take_out(work, held)
    finish(work, held, Finished(event, "none"))


def _configuring_event(changes: dict[str, object]) -> str:
    if set(changes) == {"paused"}:
        return "paused" if changes["paused"] else "resumed"
    return "configured"
