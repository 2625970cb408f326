"""The watermark on PostgreSQL. A transaction that writes a line locks its table before it draws the line's number, and until it ends. So
once all transactions that held such a lock after a line was drawn have ended, every line up to it is visible or will never exist."""

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
    """Transactions that may still add lines up to that one."""


class PostgresqlWatermark:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._settled = {"history": 0, "audit": 0}
        self._marks: dict[str, _Mark] = {}
        """Lines whose transactions have not all ended yet."""

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
        """None if no line was drawn since. Reads the line before the writers: a writer that starts in between only causes a wait."""
        with self._dialect.reading() as session:
            line = int(session.rows(f"last_line_{kind}")[0][0])
            return _Mark(line, _writers(session, kind)) if line > self._settled[kind] else None


def _still_there(before: frozenset[str], now: frozenset[str]) -> frozenset[str]:
    """A transaction prepared for two-phase commit continues under another name, so all prepared transactions are waited for."""
    return (before & now) | {name for name in now if name.startswith(_PREPARED)}


def _writers(session: Session, kind: str) -> frozenset[str]:
    return frozenset(row[0] for row in session.rows(f"list_writers_{kind}"))
