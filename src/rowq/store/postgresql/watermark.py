"""The horizon on PostgreSQL. Whoever writes a line holds a lock of its table from before the line's number is drawn until their
transaction is over; so once all have ended who held one after a line was drawn, every line up to it is there or will never be."""

from __future__ import annotations

import time
from typing import NamedTuple

from rowq.clock import running
from rowq.store.dialect import PATIENCE, Dialect, Session

_PAUSE = 0.01
_PREPARED = "-1/"


class _Mark(NamedTuple):
    line: int
    writers: frozenset[str]
    """Transactions that may still bring lines up to that one."""


class PostgresqlWatermark:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._settled = {"history": 0, "audit": 0}
        self._marks: dict[str, _Mark] = {}
        """Lines that wait for transactions to end."""

    def settled(self, kind: str) -> int:
        deadline = running() + PATIENCE
        mark = self._marks.pop(kind, None) or self._draw(kind)
        while mark is not None:
            if not mark.writers:
                self._settled[kind] = mark.line
                break
            if running() + _PAUSE > deadline:
                self._marks[kind] = mark
                break
            time.sleep(_PAUSE)
            with self._dialect.reading() as session:
                mark = _Mark(mark.line, _still_there(mark.writers, _writers(session, kind)))
        return self._settled[kind]

    def _draw(self, kind: str) -> _Mark | None:
        """None where no line was drawn since. First the line, then who writes: somebody who comes in between only makes us wait."""
        with self._dialect.reading() as session:
            line = int(session.rows(f"last_line_{kind}")[0][0])
            return _Mark(line, _writers(session, kind)) if line > self._settled[kind] else None


def _still_there(before: frozenset[str], now: frozenset[str]) -> frozenset[str]:
    """A transaction that is prepared for two-phase commit goes on under another name: any such one is waited for."""
    return (before & now) | {name for name in now if name.startswith(_PREPARED)}


def _writers(session: Session, kind: str) -> frozenset[str]:
    return frozenset(row[0] for row in session.rows(f"list_writers_{kind}"))
