"""One message at a time: all that the audit tells of it, beside all that participants have seen and said of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from trust.torture.checks.evidence import Evidence, Row


class Event(NamedTuple):
    seq: int
    id: int
    at: int
    queue: str
    event: str
    attempt: int | None
    actor: str | None
    detail: str | None


class Taken(NamedTuple):
    """A delivery that reached its consumer."""

    seq: int
    id: int
    tag: str
    attempt: int | None
    until: int
    token: int | None
    asked: int
    answered: int


class Said(NamedTuple):
    """What a consumer said of a delivery. `taken` is None where it had made up the receipt."""

    seq: int
    taken: int | None
    verb: str
    outcome: str
    until: int | None
    asked: int
    answered: int | None
    way: str


class Place(NamedTuple):
    seq: int
    queue: str
    state: str
    attempts: int


@dataclass
class Story:
    seq: int
    events: list[Event] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    @property
    def queue(self) -> str:
        return self.events[0].queue


_EVENTS = "SELECT seq, id, at, queue, event, attempt, actor, detail FROM events WHERE seq IS NOT NULL ORDER BY seq, id"
_TAKEN = """
SELECT t.seq, t.id, t.tag, t.attempt, t.until, t.token, c.asked, c.answered
FROM taken t JOIN calls c ON c.id = t.call WHERE t.seq IS NOT NULL ORDER BY t.seq, t.id"""
_SAID = """
SELECT s.seq, s.taken, s.verb, s.outcome, s.until, c.asked, c.answered, c.way
FROM said s JOIN calls c ON c.id = s.call WHERE s.seq IS NOT NULL ORDER BY s.seq, s.id"""
_PLACES = "SELECT seq, queue, state, attempts FROM places ORDER BY seq"


def stories(evidence: Evidence) -> Iterator[Story]:
    """In the order of their seqs; whatever anybody tells of a message is in its story, also if nobody else knows of it."""
    tellers = [_Teller(evidence.ask(question)) for question in (_EVENTS, _TAKEN, _SAID, _PLACES)]
    while (seqs := [teller.seq for teller in tellers if teller.seq is not None]) != []:
        seq = min(seqs)
        events, taken, said, places = [teller.tell(seq) for teller in tellers]
        yield Story(
            seq,
            [Event._make(row) for row in events],
            [Taken._make(row) for row in taken],
            [Said._make(row) for row in said],
            [Place._make(row) for row in places],
        )


class _Teller:
    """Rows in the order of their seqs, a message at a time."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = iter(rows)
        self._next = next(self._rows, None)

    @property
    def seq(self) -> int | None:
        return None if self._next is None else self._next[0]

    def tell(self, seq: int) -> list[Row]:
        told = []
        while self._next is not None and self._next[0] == seq:
            told.append(self._next)
            self._next = next(self._rows, None)
        return told
