"""The progress of a copy: a few numbers for each queue, stored at the target in the same transactions as what they count."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from rowq.errors import InvalidArgument, StoreBusy
from rowq.model.queue import Settings, dead_topic
from rowq.store.dialect import Session
from rowq.store.transaction import Transaction

Part = Literal["audit", "messages", "history", "names", "replaced"]
"""The parts of a copy, each copied up to a number: a seq for messages, otherwise the id of a line."""

_ROOM = 1 << 32
"""How many messages may still be sent to the source before a new base is drawn."""
_PAUSED = (None, False, True)
"""The source's `paused` setting before the copy, encoded as an index."""


class Course(msgspec.Struct, frozen=True):
    """The progress of one queue's copy."""

    queue: str
    base: int
    """Added to each seq of the source."""
    room: int
    """The highest seq of the source that the base is valid for."""
    floor: int
    """Everything up to this seq had arrived when the copy was last complete."""
    audit: int
    messages: int
    history: int
    names: int
    replaced: int
    entries: int
    """Undelivered keys written up to this time have arrived."""
    paused: int | None = None
    """The source's `paused` setting when the copy began; None once the copy is complete and the settings have arrived."""

    @property
    def is_complete(self) -> bool:
        return self.paused is None

    def takes(self, seq: int | None) -> bool:
        """Whether events of this message must still be copied: after the first complete copy, only those of later messages."""
        return not self.is_complete or (seq is not None and seq > self.floor)


_FIELDS = Course.__struct_fields__[1:]
"""What is stored of a course, each under a name of its own."""


def read_courses(session: Session, source: int, queues: Iterable[str]) -> dict[str, Course]:
    """The courses of existing queues whose copy from that source has begun."""
    names = {_name(source, queue, field): (queue, field) for queue in queues for field in _FIELDS}
    found: dict[str, dict[str, int]] = {}
    for name, value in session.rows("read_marks", names=list(names)) if names else []:
        queue, field = names[name]
        found.setdefault(queue, {})[field] = value
    there = {row[0] for row in session.rows("read_settings", queues=list(found))} if found else set()
    return {queue: Course(queue=queue, **values) for queue, values in found.items() if queue in there}


def begin(tx: Transaction, source: int, settings: Mapping[str, Settings], last: int) -> dict[str, Course]:
    """The first step: gives each new queue a base and creates it paused, before anything is changed at the source. `settings` are the
    source's, by queue, and `last` is its last seq."""
    known = refuse_strangers(tx.session, source, list(settings))
    new = [queue for queue in settings if queue not in known]
    cramped = [queue for queue, course in known.items() if course.is_complete and course.room < last]
    if new or cramped:
        room = last + _ROOM
        tx.session.write("skip_seqs", count=room)
        base = int(tx.session.rows("read_skipped")[0][0]) - room
        for queue in cramped:
            known[queue] = msgspec.structs.replace(known[queue], base=base, room=room)
            _write(tx.session, source, {queue: {"base": base, "room": room}})
        for queue in new:
            known[queue] = _begin(tx, source, Course(queue, base, room, 0, 0, 0, 0, 0, 0, 0, _PAUSED.index(settings[queue].paused)))
            _write_settings(tx, queue, msgspec.structs.replace(settings[queue], paused=True))
    return {queue: known[queue] for queue in settings}


def _begin(tx: Transaction, source: int, course: Course) -> Course:
    tx.session.write("delete_marks", names=[_name(source, course.queue, field) for field in _FIELDS])
    for field in _FIELDS:
        tx.session.write("insert_mark", name=_name(source, course.queue, field), seq=getattr(course, field))
    return course


def advance(tx: Transaction, source: int, courses: Mapping[str, Course], part: Part, reached: Mapping[str, int]) -> None:
    """Moves the marks of a part on from the known position, in the transaction that writes what they count."""
    names = {_name(source, queue, part): queue for queue in reached}
    marks: dict[str, int] = dict(tx.session.rows("lock_marks", names=list(names)))
    if any(marks.get(name) != getattr(courses[queue], part) for name, queue in names.items()):
        raise StoreBusy("another process is copying the same queues at this moment; nothing was written: let that copy end first")
    _write(tx.session, source, {queue: {part: number} for queue, number in reached.items()})


def complete(
    tx: Transaction, source: int, courses: Mapping[str, Course], settings: Mapping[str, Settings], *, floor: int, entries: int
) -> None:
    """Everything up to a seq has arrived. The first time this also writes the settings, paused only if the source was paused before."""
    for queue, course in courses.items():
        _write(tx.session, source, {queue: {"floor": floor, "entries": max(entries, course.entries)}})
        if course.paused is None:
            continue
        tx.session.write("delete_marks", names=[_name(source, queue, "paused")])
        arrived = msgspec.structs.replace(settings[queue], paused=_PAUSED[course.paused])
        _write_settings(tx, queue, arrived)
        tx.audit(queue, None, "copied", detail="from another database, with its settings")
        if not tx.policy(queue).paused:
            tx.woken[queue] += 1
            tx.woken[dead_topic(queue)] += 1
    tx.flush()


def refuse_strangers(session: Session, source: int, queues: list[str]) -> dict[str, Course]:
    """The courses that have begun. The other queues must be empty here: their messages could not be told from copied ones."""
    known = read_courses(session, source, queues)
    for queue in queues:
        count = 0 if queue in known else sum(session.rows("count_states", queue=queue)[0][:-1])
        if count:
            raise InvalidArgument(
                f"{queue!r} holds {count} messages at the target that this copy did not bring: empty or delete it there, or leave it out"
            )
    return known


def _write_settings(tx: Transaction, queue: str, settings: Settings) -> None:
    tx.change_settings()
    tx.policies.write(tx.session, queue, settings, tx.now)
    tx.forget_policy(queue)


def _write(session: Session, source: int, marks: Mapping[str, Mapping[str, int]]) -> None:
    rows = [(_name(source, queue, field), value) for queue, values in marks.items() for field, value in values.items()]
    session.many("write_mark", ("name", "seq"), rows)


def _name(source: int, queue: str, field: str) -> str:
    """Hashed to fit the length of a counter's name in every database."""
    return f"copy:{hashlib.blake2b(f'{source}/{queue}'.encode(), digest_size=16).hexdigest()}:{field}"
