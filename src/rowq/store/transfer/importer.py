"""Imports messages from another database with their ids, states and order, by the target's own settings; and what a copy moves besides
them: audit lines, the ids of messages that are gone, undelivered keys, answers to requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from rowq.errors import IdTaken, RowqError, StoreError
from rowq.ids import message_id, origin_of
from rowq.model import lifecycle
from rowq.model.draft import GROUPED, HAS_OWN_ID, KEYED, PREPARED_COLUMNS
from rowq.model.lifecycle import Dead, Waiting
from rowq.model.message import State
from rowq.store import groups
from rowq.store.dialect import Row, Session
from rowq.store.locked_message import LockedMessage, hold_waiting, lock_groups, lock_keys
from rowq.store.place import put_back, take_out
from rowq.store.transaction import Transaction
from rowq.store.transfer.exporter import Exported, FinishedLine
from rowq.store.transfer.progress import Course
from rowq.store.transition import move, policy_of_lease, put_waiting, return_position

_BODY = ("seq", "sent_at", *PREPARED_COLUMNS)
_FORMAT = _BODY.index("format")
_HEADERS = _BODY.index("headers")
_OWN_ID = _BODY.index("own_id")
_MARKS = _BODY.index("marks")
_WAITING = (State.READY, State.SCHEDULED, State.BLOCKED)
_LEASED = "it was leased when it was copied"

Named = tuple[str, str]
"""A queue and the id of a message in it."""


def import_messages(tx: Transaction, exported: Sequence[Exported], bases: Mapping[str, int]) -> list[str]:
    """Imports messages in order of seq; returns the queue of each one imported. Messages that are already here are skipped."""
    known = find_known(tx.session, {(one.held.queue, one.held.id): one.held.seq + bases[one.held.queue] for one in exported})
    coming = [one for one in exported if (one.held.queue, one.held.id) not in known]
    with _whole():
        _write_ids(tx, [(one.held.id, one.held.seq, one.held.queue) for one in coming], bases)
        _write_bodies(tx, [(one.body, one.held.id) for one in coming], bases)
        held = [_settled(tx, _moved_in(one.held, bases)) for one in coming]
        _put(tx, [one for one in held if one is not None])
        groups.promote_next(tx)
    arrived = [one.held.queue for one in coming]
    for queue in set(arrived):
        tx.policies.known(tx.session, queue).depth_bound = None  # the queue now holds more messages than were counted
    return arrived


def import_finished(tx: Transaction, finished: Sequence[FinishedLine], bases: Mapping[str, int]) -> list[str]:
    """The same for finished messages. One that was imported before it finished is skipped too."""
    known = find_known(tx.session, {(one.queue, one.id): one.seq + bases[one.queue] for one in finished})
    coming = [one for one in finished if (one.queue, one.id) not in known]
    with _whole():
        _write_ids(tx, [(one.id, one.seq, one.queue) for one in coming], bases)
        _write_bodies(tx, [(one.body, one.id) for one in coming if one.body is not None], bases)
        tx.changes["insert_history"].extend([(one.seq + bases[one.queue], *one.line[1:-1], one.id) for one in coming])
        tx.flush()
    return [one.queue for one in coming]


def replace(tx: Transaction, exported: Sequence[Exported], bases: Mapping[str, int]) -> None:
    """Applies replacements made at the source after the copy, to messages that still wait here."""
    replaced = {one.held.seq + bases[one.held.queue]: one for one in exported if one.held.state in _WAITING}
    with _whole():
        for held in hold_waiting(tx.session, sorted(replaced)) if replaced else []:
            body, expires_at = replaced[held.seq].body, replaced[held.seq].held.expires_at
            tx.changes["replace_body"].append((*body[_FORMAT : _HEADERS + 1], held.seq))
            take_out(tx, held)  # rewritten, so that a running claim does not hand out the old body
            put_back(tx, held, expires_at)
            _expect_end(tx, held, expires_at)
            tx.audit(held.queue, held.seq, "replaced")
        tx.flush()


def bring_events(tx: Transaction, events: Sequence[Row], courses: Mapping[str, Course]) -> None:
    """Writes rows of `list_events` unchanged, except for their seqs."""
    for _, queue, at, seq, *rest in events:
        if courses[queue].takes(seq):
            tx.changes["insert_audit"].append((at, queue, None if seq is None else seq + courses[queue].base, *rest))
    tx.flush()


def name_gone(tx: Transaction, events: Sequence[Row], courses: Mapping[str, Course]) -> None:
    """Writes rows of `list_enqueued`, for messages that are gone: their ids still lead to their audit."""
    rows = [(message_id(seq, at), seq + courses[queue].base, queue, tx.now) for _, queue, at, seq in events if courses[queue].takes(seq)]
    if rows:
        tx.session.many("insert_gone_id", ("id", "seq", "queue", "gone_at"), rows)


def bring_gone_ids(tx: Transaction, ids: Sequence[Row], course: Course) -> None:
    """Writes rows of `list_gone_ids`: callers' own ids stay taken."""
    rows = [(id, seq + course.base, course.queue, gone_at) for id, seq, gone_at in ids if course.takes(seq)]
    if rows:
        tx.session.many("insert_gone_id", ("id", "seq", "queue", "gone_at"), rows)


def bring_answers(tx: Transaction, answers: Sequence[Row]) -> None:
    """Writes rows of `list_answers`: a send that is retried at the target gets its first answer."""
    tx.session.many("insert_answer", ("id", "at", "fingerprint", "answer"), answers)


def bring_entries(tx: Transaction, entries: Sequence[Row], courses: Mapping[str, Course], *, everything: bool) -> None:
    """Writes rows of `read_kv`, for messages of these queues, and with `everything` also those of unknown queues. Entries of an earlier run
    are not written again, as they may have been deleted here since; entries written here later are kept."""
    ids = sorted({entry[4] for entry in entries})
    queues: defaultdict[str, set[str]] = defaultdict(set)
    for id, _, queue, _ in tx.session.rows("find_ids", ids=ids) if ids else []:
        queues[id].add(queue)
    until = {queue: course.entries for queue, course in courses.items()}
    oldest = min(until.values())
    for entry_key, format, value, written_at, id in entries:
        ours = queues[id] & until.keys()
        if (not ours and (queues[id] or not everything)) or written_at <= min([until[queue] for queue in ours], default=oldest):
            continue
        found = tx.session.row("find_entry", entry_key=entry_key)
        if found is None or found[0] < written_at:
            tx.session.write("write_entry", entry_key=entry_key, format=format, value=value, written_at=written_at, message_id=id)


def find_known(session: Session, seqs: Mapping[Named, int]) -> set[Named]:
    """The ids whose messages are, or were, here under these seqs; raises IdTaken if another message of the queue has one of them."""
    known: set[Named] = set()
    for id, seq, queue, gone_at in session.rows("find_ids", ids=sorted({id for _, id in seqs})) if seqs else []:
        if seq == seqs.get((queue, id)):
            known.add((queue, id))
        elif gone_at is None and (queue, id) in seqs:
            raise _taken(queue, id)
    origins = {origin.seq for _, id in seqs if (origin := origin_of(id)) is not None}
    for seq, sent_at, queue, _ in session.rows("find_origins", seqs=sorted(origins)) if origins else []:
        if seqs.get((queue, message_id(seq, sent_at)), seq) != seq:
            raise _taken(queue, message_id(seq, sent_at))
    return known


def _taken(queue: str, id: str) -> IdTaken:
    return IdTaken(f"another message of {queue!r} at the target has the id {id!r}: delete one of the two, and run the copy again")


@contextmanager
def _whole() -> Iterator[None]:
    """An operation that raises a plain error is expected to have written nothing; a StoreError rolls back the whole transaction."""
    try:
        yield
    except StoreError:
        raise
    except RowqError as error:
        raise StoreError(f"the target does not accept it: {error}") from error


def _write_ids(tx: Transaction, ids: list[tuple[str, int, str]], bases: Mapping[str, int]) -> None:
    if ids:
        tx.session.many("take_id", ("id", "seq", "queue"), [(id, seq + bases[queue], queue) for id, seq, queue in ids])


def _write_bodies(tx: Transaction, bodies: list[tuple[Row, str]], bases: Mapping[str, int]) -> None:
    rows = [(body[0] + bases[body[2]], *body[1:_OWN_ID], id, body[_MARKS] | HAS_OWN_ID) for body, id in bodies]
    if rows:
        tx.session.many("insert_message", _BODY, rows)


def _moved_in(held: LockedMessage, bases: Mapping[str, int]) -> LockedMessage:
    """Converts seq and position to the numbers of this database; both are shifted by the same base."""
    base = bases[held.queue]
    place = held.place + base if held.state is State.READY and held.place is not None else held.place
    return msgspec.structs.replace(held, seq=held.seq + base, place=place, own_id=held.id, marks=held.marks | HAS_OWN_ID)


def _settled(tx: Transaction, held: LockedMessage) -> LockedMessage | None:
    """Leases are not copied: a leased message returns to its queue, and the attempt does not count. If that could deliver an at-most-once
    message twice, its lease expires instead, and None is returned."""
    if held.state is not State.LEASED:
        return held
    policy = policy_of_lease(tx, held)
    if policy.delivery == "at_most_once" and held.reason is None:
        ended = msgspec.structs.replace(held, error=held.error or _LEASED)
        move(tx, ended, lifecycle.after_lease_expiry(ended.standing, policy, tx.now, tx.random))
        return None
    match lifecycle.after_failure(held.standing, policy, tx.now, tx.random, error=None, delay=0, counts=False):
        case Waiting(attempts=attempts):
            position = return_position(tx, held.queue, held.seq)
            return msgspec.structs.replace(held, state=State.READY, attempts=attempts, place=position)
        case Dead(due=due, redeliveries=redeliveries):
            return msgspec.structs.replace(held, state=State.DEAD, place=due, redeliveries=redeliveries)
    raise AssertionError(f"{held.id} was released, and did not come back")


def _put(tx: Transaction, held: list[LockedMessage]) -> None:
    """Writes the state rows: dead letters first, then waiting messages, with locks on keys and groups in the usual order."""
    tx.changes["insert_dead"].extend(
        [
            (one.queue, one.seq, one.place, one.attempts, one.redeliveries, one.reason, one.error, one.died_at)
            for one in held
            if one.state is State.DEAD
        ]
    )
    waiting = [one for one in held if one.state in _WAITING]
    keys = {name: lock_keys(tx.session, name, keys) for name, keys in _named(waiting, "message_key").items()}
    heads = {name: lock_groups(tx.session, name, named) for name, named in _named(waiting, "group_key").items()}
    for one in waiting:
        _wait(tx, one, keys.get(one.queue, {}), heads.get(one.queue, {}))


def _named(waiting: list[LockedMessage], field: str) -> dict[str, list[str]]:
    """The keys or groups of each queue, in order."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for one in waiting:
        if (name := getattr(one, field)) is not None:
            found[one.queue].add(name)
    return {queue: sorted(found[queue]) for queue in sorted(found)}


def _wait(tx: Transaction, held: LockedMessage, keys: dict[str, int], heads: dict[str, int]) -> None:
    """`keys` and `heads`: the messages known to wait under each key and to lead each group of this queue."""
    due = tx.now if held.state is State.READY or held.place is None else held.place
    head = heads.get(held.group_key or "") if held.marks & GROUPED else None
    if (held.marks & KEYED and held.message_key in keys) or (head is not None and head > held.seq):
        _contend(tx, held, due)
        return
    if held.marks & KEYED and held.message_key is not None:
        keys[held.message_key] = held.seq
        tx.changes["hold_key"].append((held.queue, held.message_key, held.seq))
    _expect_end(tx, held, held.expires_at)
    if head is not None:
        held = msgspec.structs.replace(held, state=State.BLOCKED, place=due)
    elif held.marks & GROUPED and held.group_key is not None:
        heads[held.group_key] = held.seq
        tx.changes["set_group_head"].append((held.queue, held.group_key, held.seq))
        if held.state is State.BLOCKED:  # the message before it is gone
            held = msgspec.structs.replace(
                held, **({"state": State.SCHEDULED} if due > tx.now else {"state": State.READY, "place": held.seq})
            )
    put_back(tx, held, held.expires_at)


def _expect_end(tx: Transaction, held: LockedMessage, expires_at: int | None) -> None:
    if (ends_at := lifecycle.ends_at(expires_at, held.deadline)) is not None:
        tx.changes["insert_expiring"].append((held.seq, held.queue, ends_at))


def _contend(tx: Transaction, held: LockedMessage, due: int) -> None:
    """Another message has its key, or leads its group although younger: handled like a returning dead letter."""
    put_waiting(tx, msgspec.structs.replace(held, state=State.DEAD), Waiting(due, held.attempts, held.expires_at, held.error))
