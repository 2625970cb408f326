"""The horizon on PostgreSQL. A line's number is drawn by a transaction that has a number already; so once every transaction has ended
whose number is lower than one that was drawn after the line was, all lines up to it are there or will never be."""

from __future__ import annotations

import time
from typing import NamedTuple

from rowq.clock import running
from rowq.store.dialect import Dialect
from rowq.store.horizon import PATIENCE

_PAUSE = 0.01


class _Mark(NamedTuple):
    line: int
    transaction: int


class PostgresqlHorizon:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._settled = {"history": 0, "audit": 0}
        self._marks: dict[str, _Mark] = {}
        """Lines that wait for transactions to end."""

    def settled(self, kind: str) -> int:
        deadline = running() + PATIENCE
        mark = self._marks.get(kind) or self._draw(kind)
        while mark is not None:
            if self._oldest_open() >= mark.transaction:
                self._settled[kind] = mark.line
                self._marks.pop(kind, None)
                break
            if running() + _PAUSE > deadline:
                self._marks[kind] = mark
                break
            time.sleep(_PAUSE)
        return self._settled[kind]

    def _draw(self, kind: str) -> _Mark | None:
        """None where no line was drawn since. The transaction's number must be a new one: what a snapshot calls its end is only behind
        those that have ended, and whoever is still open may be beyond it."""
        with self._dialect.writing(durable=False) as session:
            line = int(session.rows(f"last_line_{kind}")[0][0])
            if line <= self._settled[kind]:
                return None
            return _Mark(line, int(session.rows("draw_transaction")[0][0]))

    def _oldest_open(self) -> int:
        with self._dialect.reading() as session:
            return int(session.rows("oldest_open_transaction")[0][0])
