"""The horizon on MariaDB: the last line under a lock of the whole log, which is given when no transaction is open that has written to it.

To wait for that lock as a reader holds up nobody; but where many write at once, there may never be a moment without any of them. Then
the lock is asked for as a writer, which lets nobody begin before it, for as long as the transactions of the moment take. That is
not done while somebody keeps one open for long: all others would have to wait with us.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from rowq.clock import running
from rowq.store.mariadb.session import MariadbSession
from rowq.store.retry import ConnectionLost, TryAgain

_LOOK_BACK = 10_000
"""Lines among which those of open transactions are looked for."""
_LONG = 0.1
"""Seconds that are long for a transaction."""
_CROWDED = 30.0


class MariadbWatermark:
    def __init__(self, asking: Callable[[], AbstractContextManager[MariadbSession]], timeout: float) -> None:
        """`asking`: a session in which every statement stands for itself; `timeout`: how long it usually waits for a lock."""
        self._asking = asking
        self._usual = max(1, int(timeout))
        self._settled = {"history": 0, "audit": 0}
        self._crowded_until: dict[str, float] = {}
        """Logs that a reader has waited for in vain: for a while nobody tries that again."""

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
        """None when the lock was not given within a second."""
        try:
            with self._asking() as session:
                session.rows("wait_for_locks", seconds=1)
                try:
                    session.rows(f"lock_{kind}_as_{role}")
                    return int(session.rows(f"last_line_{kind}")[0][0])
                finally:
                    if not session.is_amid:  # else it was interrupted, and the connection is closed
                        session.rows("unlock_tables")
                        session.rows("wait_for_locks", seconds=self._usual)
        except ConnectionLost:
            raise
        except TryAgain:
            return None

    def _is_kept_open(self, kind: str) -> bool:
        """Whether one and the same line was written and not committed for a while."""
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
