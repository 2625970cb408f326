"""The watermark on MariaDB: the last line, read under a lock of the whole log, which is granted when no open transaction has written to it.

Waiting for a read lock blocks no other transaction; but with many writers there may never be a moment without an open one. Then a write
lock is requested, which makes new writers wait until the current transactions end. That is not done while one of them stays open for
long: all other writers would have to wait for it too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from rowq.clock import running
from rowq.store.mariadb.session import MariadbSession
from rowq.store.retry import ConnectionLost, TryAgain

_LOOK_BACK = 10_000
"""How many of the last lines are searched for those of open transactions."""
_LONG = 0.1
"""Seconds that are long for a transaction."""
_CROWDED = 30.0


class MariadbWatermark:
    def __init__(self, asking: Callable[[], AbstractContextManager[MariadbSession]], timeout: float) -> None:
        """`asking` opens a session in which every statement is its own transaction; `timeout`: how long it usually waits for a lock."""
        self._asking = asking
        self._usual = max(1, int(timeout))
        self._settled = {"history": 0, "audit": 0}
        self._crowded_until: dict[str, float] = {}
        """Logs whose read lock was not granted in time: it is not tried again until then."""

    def settled(self, kind: str) -> int:
        found = None if running() < self._crowded_until.get(kind, 0) else self._ask(kind, "reader")
        if found is None and not self._is_kept_open(kind):
            found = self._ask(kind, "writer")
            if running() >= self._crowded_until.get(kind, 0):
                self._crowded_until[kind] = running() + _CROWDED
        elif found is not None:
            self._crowded_until.pop(kind, None)
        if found is not None:
            self._settled[kind] = found
        return self._settled[kind]

    def _ask(self, kind: str, role: str) -> int | None:
        """None if the lock was not granted within a second."""
        try:
            with self._asking() as session:
                session.rows("wait_for_locks", seconds=1)
                try:
                    session.rows(f"lock_{kind}_as_{role}")
                    return int(session.rows(f"last_line_{kind}")[0][0])
                finally:
                    if not session.is_amid:  # otherwise it was interrupted, and the connection is closed
                        session.rows("unlock_tables")
                        session.rows("wait_for_locks", seconds=self._usual)
        except ConnectionLost:
            raise
        except TryAgain:
            return None

    def _is_kept_open(self, kind: str) -> bool:
        """Whether a line stays uncommitted for a while."""
        before = self._open_lines(kind)
        if not before:
            return False
        time.sleep(_LONG)
        return not before.isdisjoint(self._open_lines(kind))

    def _open_lines(self, kind: str) -> set[int]:
        with self._asking() as session:
            session.rows("see_uncommitted")
            written = {row[0] for row in session.rows(f"list_last_{kind}", limit=_LOOK_BACK)}
            if not written:
                return set()
            session.rows("see_committed")
            return written - {row[0] for row in session.rows(f"list_unlocked_{kind}", first=min(written), last=max(written))}
