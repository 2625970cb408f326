"""What operators do: settings, purge, delete, redrive. Large ones come in pieces, a transaction each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

import msgspec

from rowq.errors import HeldByStream, MessageNotFound, QueueNotFound
from rowq.ids import message_id
from rowq.model import lifecycle
from rowq.model.failure import matches
from rowq.model.fingerprint import LOOKED_AT, fingerprint
from rowq.model.lifecycle import Finished
from rowq.model.message import State, Where
from rowq.model.queue import Settings, change, dead_topic
from rowq.store import groups
from rowq.store.finding import is_named, not_found, seq_of
from rowq.store.held import Held, hold, hold_anywhere
from rowq.store.moving import finish, move
from rowq.store.places import take_out
from rowq.store.revoking import refuse_streamed, streamed
from rowq.store.sweeping import forget_finished
from rowq.store.work import Work

_CANDIDATES = 500
"""Dead letters of which one piece of a redrive makes fingerprints: no longer than moving as many takes."""


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


def delete_queue(work: Work, queue: str) -> bool:
    """The settings, once its messages have been purged in pieces; False if somebody has sent more since."""
    if any(work.session.rows("count_states", queue=queue)[0][:-1]):
        refuse_streamed(work, queue)
        return False
    if not work.session.run("delete_queue", name=queue):
        raise QueueNotFound(f"there is no queue {queue!r}: nothing was ever sent to it or set on it")
    work.session.run("delete_bucket", queue=queue)
    work.session.run("delete_consumers_of_queue", queue=queue)
    work.session.run("delete_own_ids_of_queue", queue=queue)
    work.session.run("delete_requests_of_queue", first=f"{queue}/", last=f"{queue}0")
    work.change_settings()
    work.forget_policy(queue)
    work.audit(queue, None, "queue_deleted")
    if work.tally is not None:
        work.tally.deleted.append(queue)
    work.flush()
    return True


def purge(work: Work, queue: str, state: State, seqs: list[int]) -> int:
    """Removes those of the messages that are still in the state. What a stream holds is left to it."""
    if state is State.FINISHED:
        still = [row[0] for row in work.session.rows("find_finished", seqs=seqs)]
        forget_finished(work, queue, still)
        if work.tally is not None:
            work.tally.counts[queue, "purged"] += len(still)
        work.flush()
        return len(still)
    held = hold(work.session, seqs, state)
    if state is State.LEASED:
        kept = streamed(work.session, seqs)
        held = [one for one in held if one.seq not in kept]
    for one in held:
        _remove(work, one, "purged")
    work.flush()
    groups.call_up(work)
    work.flush()
    return len(held)


def note_purge(work: Work, count: int, *, queue: str, states: Sequence[State]) -> None:
    work.audit(queue, None, "purged", detail=f"{count} messages: {', '.join(states)}")
    work.flush()


def note_dead(work: Work, count: int, *, queue: str, event: str) -> None:
    """What somebody did to dead letters, beside the line that each of them has."""
    if count:
        work.audit(queue, None, event, detail=f"{count} dead letters")
        work.flush()


def delete(work: Work, id: str) -> None:
    """Wherever it is; a consumer that holds it finds its receipt gone."""
    seq = seq_of(work.session, id)
    held = [one for one in hold_anywhere(work.session, [seq]) if is_named(id, one.own_id, one.seq, one.sent_at)]
    if held:
        if held[0].state is State.LEASED and (holder := streamed(work.session, [seq]).get(seq)):
            raise HeldByStream(
                f"the message {id!r} is in batch {holder[1]} of the stream {holder[0]!r}: quarantine it, or revoke the stream first"
            )
        _remove(work, held[0], "deleted")
        queue = held[0].queue
    else:
        row = work.session.row("find_finished_message", seq=seq)
        if row is None or not is_named(id, row[2], seq, row[1]):
            raise not_found(id)
        forget_finished(work, row[0], [seq])
        work.audit(row[0], seq, "deleted")
        queue = row[0]
    work.audit(queue, None, "message_deleted", detail=id)
    work.flush()
    groups.call_up(work)
    work.flush()


def delete_dead(work: Work, queue: str, id: str) -> bool:
    """One dead letter; False when that id is no dead letter of the queue, or no longer."""
    try:
        seq = seq_of(work.session, id)
    except MessageNotFound:
        return False
    held = [one for one in hold(work.session, [seq], State.DEAD) if one.queue == queue and is_named(id, one.own_id, one.seq, one.sent_at)]
    for one in held:
        _remove(work, one, "deleted")
        work.audit(queue, None, "message_deleted", detail=id)
    work.flush()
    return bool(held)


class Redrive(msgspec.Struct, frozen=True):
    """A piece of a redrive: dead letters back into their queue, same id and place, as if new. Leased ones are left alone.

    Ids and filters narrow each other."""

    event: ClassVar[str] = "dead_redriven"
    """The line among the actions."""

    queue: str
    ids: list[str] | None
    where: Where
    after: int
    limit: int

    def __call__(self, work: Work) -> tuple[int, int | None]:
        """How many went, and where to go on: a position among the ids, or a seq; None at the end."""
        seqs, after = self._seqs_of_ids(work) if self.ids is not None else self._seqs_of_filter(work)
        named = None if self.ids is None else set(self._piece)
        held = [one for one in hold(work.session, seqs, State.DEAD) if self._is_meant(one, named)] if seqs else []
        self._treat(work, held)
        work.flush()
        groups.call_up(work)
        work.flush()
        return len(held), after

    def _treat(self, work: Work, held: list[Held]) -> None:
        for one in held:
            work.audit(self.queue, one.seq, "redriven", detail=one.reason)
            move(work, one, lifecycle.after_redrive(one.standing, work.policy(self.queue), work.now))
        work.policies.known(work.session, self.queue).depth_bound = None  # more messages are in it than were sent
        work.has_redriven = True

    def _is_meant(self, one: Held, named: set[str] | None) -> bool:
        """An id of another database may carry the seq of one of ours; and since it was chosen, a letter may have died once more."""
        if one.queue != self.queue or not (named is None or one.own_id in named or message_id(one.seq, one.sent_at) in named):
            return False
        return matches(self.where, one.reason, one.error, one.message_key, one.group_key, one.died_at)

    @property
    def _piece(self) -> list[str]:
        return (self.ids or [])[self.after : self.after + self.limit]

    def _seqs_of_ids(self, work: Work) -> tuple[list[int], int | None]:
        piece = self._piece
        seqs = []
        for id in piece:
            with suppress(MessageNotFound):
                seqs.append(seq_of(work.session, id))
        return sorted(seqs), self.after + len(piece) if len(piece) == self.limit else None

    def _seqs_of_filter(self, work: Work) -> tuple[list[int], int | None]:
        rows = work.session.rows(
            "list_dead_where",
            queue=self.queue,
            after=self.after,
            limit=self.limit if self.where.fingerprint is None else _CANDIDATES,
            reason=self.where.reason,
            error=self.where.error,
            message_key=self.where.key,
            group_key=self.where.group,
            died_before=self.where.died_before,
            died_after=self.where.died_after,
            characters=LOOKED_AT,
        )
        if self.where.fingerprint is None:
            return [row[0] for row in rows], rows[-1][0] if len(rows) == self.limit else None
        seqs = [seq for seq, error in rows if fingerprint(error or "") == self.where.fingerprint]
        if len(seqs) > self.limit:
            return seqs[: self.limit], seqs[self.limit - 1]
        return seqs, rows[-1][0] if len(rows) == _CANDIDATES else None


class Removal(Redrive, frozen=True):
    """The same choice, for dead letters that go for good."""

    event: ClassVar[str] = "dead_deleted"

    def _treat(self, work: Work, held: list[Held]) -> None:
        for one in held:
            _remove(work, one, "deleted")


def entry_key(parts: list[str | int]) -> str:
    return msgspec.json.encode(parts).decode()


def forget(work: Work, key: str) -> bool:
    return work.session.run("delete_kv", entry_key=key) > 0


def _remove(work: Work, held: Held, event: str) -> None:
    take_out(work, held)
    finish(work, held, Finished(event, "none"))


def _configuring_event(changes: dict[str, object]) -> str:
    if set(changes) == {"paused"}:
        return "paused" if changes["paused"] else "resumed"
    return "configured"
