"""The parameters of a replay: a few numbers under its name, written once, so that every further run continues with the same."""

from __future__ import annotations

import hashlib

import msgspec

from rowq.store.dialect import Session
from rowq.store.transaction import Transaction


class Course(msgspec.Struct, frozen=True):
    """What stays the same from a replay's first run to its last."""

    choice: int
    """A digest of the selection."""
    begun_at: int
    upto: int
    """The last line of the archive that belongs to it."""
    chunk: int
    """How many messages are published at once."""


def begin(tx: Transaction, name: str, choice: int, upto: int, chunk: int) -> Course:
    """Returns the course of a replay: the stored one, or else this one. If two first runs start at the same moment, the second uses the
    course of the first."""
    known = read_course(tx.session, name)
    if known is not None:
        return known
    course = Course(choice, tx.now, upto, chunk)
    for field in Course.__struct_fields__:  # in one order, so that a concurrent run waits at the first of them
        tx.session.write("offer_mark", name=_mark(name, field), seq=getattr(course, field))
    return read_course(tx.session, name) or course


def read_course(session: Session, name: str) -> Course | None:
    marks = {_mark(name, field): field for field in Course.__struct_fields__}
    found = {marks[mark]: value for mark, value in session.rows("read_marks", names=list(marks))}
    return Course(**found) if found else None


def _mark(name: str, field: str) -> str:
    """Hashed to fit the length of a counter's name in every database."""
    return f"replay:{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}:{field}"
