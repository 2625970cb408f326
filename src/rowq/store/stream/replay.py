"""How a replay was begun: a few numbers under its name, written once, so that running it again goes on with the same."""

from __future__ import annotations

import hashlib

import msgspec

from rowq.store.dialect import Session
from rowq.store.transaction import Transaction


class Course(msgspec.Struct, frozen=True):
    """What a replay keeps to from its first run to its last."""

    choice: int
    """A digest of what was chosen."""
    begun_at: int
    upto: int
    """The last line of the archive that belongs to it."""
    chunk: int
    """How many messages are published at once."""


class Begin(msgspec.Struct, frozen=True):
    """Gives the course of a replay: the one that was written before, else this one. Of two first runs at the same moment one is the
    first, and the other goes by its course."""

    name: str
    choice: int
    upto: int
    chunk: int

    def __call__(self, tx: Transaction) -> Course:
        known = read_course(tx.session, self.name)
        if known is not None:
            return known
        course = Course(self.choice, tx.now, self.upto, self.chunk)
        for field in Course.__struct_fields__:  # in one order, so that the second waits at the first of them
            tx.session.write("offer_mark", name=_mark(self.name, field), seq=getattr(course, field))
        return read_course(tx.session, self.name) or course


def read_course(session: Session, name: str) -> Course | None:
    marks = {_mark(name, field): field for field in Course.__struct_fields__}
    found = {marks[mark]: value for mark, value in session.rows("read_marks", names=list(marks))}
    return Course(**found) if found else None


def _mark(name: str, field: str) -> str:
    """In the length that every database has for the name of a counter."""
    return f"replay:{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}:{field}"
