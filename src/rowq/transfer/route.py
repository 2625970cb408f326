"""Between two databases: rows of the source in order, and batches for the target, each written together with its progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import msgspec

from rowq.engine.engine import Engine
from rowq.errors import InvalidArgument, OutcomeUnknown
from rowq.model.queue import Settings
from rowq.store.dialect import Row, Session
from rowq.store.transaction import Transaction
from rowq.store.transfer import exporter, importer, progress
from rowq.store.transfer.progress import Course, Part

T = TypeVar("T")

_MOST_DOUBTS = 5


class Transfer:
    """`courses` is the progress of each queue, as recorded in the target."""

    def __init__(self, source: Engine, target: Engine, queues: list[str]) -> None:
        self.source = source
        self.target = target
        self.queues = queues
        self.courses: dict[str, Course] = {}
        self.identity = source.dialect.identity()
        if self.identity == target.dialect.identity():
            raise InvalidArgument("source and target are the same database, or copies of one file: name two that are not")

    @property
    def bases(self) -> dict[str, int]:
        return {queue: course.base for queue, course in self.courses.items()}

    def check(self) -> None:
        """Raises what `begin` would, and changes nothing."""
        with self.target.dialect.reading() as session:
            progress.refuse_strangers(session, self.identity, self.queues)

    def begin(self, settings: dict[str, Settings]) -> None:
        """Gives every queue its course; an existing one is kept."""
        last = self.ask("read_last_seq")[0][0]
        self.courses = self.target.act(partial(progress.begin, source=self.identity, settings=settings, last=last))

    def ask(self, query: str, **values: Any) -> list[Row]:
        """One query to the source, as of now."""
        with self.source.dialect.reading() as session:
            return session.rows(query, **values)

    def read(self, read: Callable[[Session, list[int]], list[T]], numbers: list[int]) -> list[T]:
        """Several queries to the source, in one snapshot."""
        with self.source.dialect.reading() as session:
            return read(session, numbers)

    def known(self, named: Iterable[importer.Named]) -> set[importer.Named]:
        """The ids that the target knows in their queues, of messages that exist or existed."""
        asked = set(named)
        if not asked:
            return set()
        with self.target.dialect.reading() as session:
            return asked & {(queue, id) for id, _, queue, _ in session.rows("find_ids", ids=sorted({id for _, id in asked}))}

    def pieces(self, query: str, after: int, last: int) -> Iterator[list[Row]]:
        """The rows of our queues after one number and up to another. Read in a writing transaction: a reader would see the state before
        another open transaction, while a writer waits for its end."""
        while after < last:
            rows = self.source.act(partial(_listed, query=query, queues=self.queues, after=after, last=last), durable=False)
            if not rows:
                return
            after = rows[-1][0]
            yield rows

    def fresh_pieces(self, query: str, part: Part, last: int) -> Iterator[list[Row]]:
        """The same, from where the courses are in that part. At the end the part is complete for all queues."""
        for rows in self.pieces(query, min(getattr(course, part) for course in self.courses.values()), last):
            fresh = [row for row in rows if row[0] > getattr(self.courses[row[1]], part)]
            if fresh:
                yield fresh
        self._set(part, {queue: last for queue, course in self.courses.items() if getattr(course, part) < last})

    def streamed(self, query: str, **values: Any) -> Iterator[list[Row]]:
        """All rows of a query, in batches."""
        with self.source.dialect.reading() as session:
            rows = session.stream(query, **values)
            while piece := list(islice(rows, exporter.PIECE)):
                yield piece

    def write(self, part: Part, rows: list[Row], bring: Callable[[Transaction], T]) -> T | None:
        """Writes a batch and advances the marks, in one transaction. None if its answer was lost, and it turned out to have been
        written."""
        reached = {row[1]: row[0] for row in rows}
        for _ in range(_MOST_DOUBTS):
            try:
                result = self._write(part, reached, bring)
            except OutcomeUnknown:
                with self.target.dialect.reading() as session:
                    known = progress.read_courses(session, self.identity, self.queues)
                if all(getattr(known[queue], part) != reached[queue] for queue in reached):
                    continue
                result = None
            self._go_on(part, reached)
            return result
        raise OutcomeUnknown("the target repeatedly did not confirm whether a batch was written: run the copy again to continue from there")

    def start(self, part: Part, number: int) -> None:
        """The part begins there, for queues where it has not begun before."""
        self._set(part, {queue: number for queue, course in self.courses.items() if not getattr(course, part)})

    def _set(self, part: Part, reached: dict[str, int]) -> None:
        if reached:
            self._write(part, reached, lambda tx: None)
            self._go_on(part, reached)

    def _write(self, part: Part, reached: dict[str, int], bring: Callable[[Transaction], T]) -> T:
        def bring_and_advance(tx: Transaction) -> T:
            result = bring(tx)
            progress.advance(tx, self.identity, self.courses, part, reached)
            return result

        return self.target.act(bring_and_advance)

    def _go_on(self, part: Part, reached: dict[str, int]) -> None:
        for queue, number in reached.items():
            self.courses[queue] = msgspec.structs.replace(self.courses[queue], **{part: number})


def _listed(tx: Transaction, query: str, queues: list[str], after: int, last: int) -> list[Row]:
    return exporter.list_piece(tx.session, query, queues, after, last)
