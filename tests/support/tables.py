"""Looks straight into the tables of a SQLite file for what must never be there. Every query names the rows that are wrong."""

from __future__ import annotations

import sqlite3
from pathlib import Path

_PLACES = """
    SELECT seq, queue, 'ready' AS state, attempts, expires_at, NULL AS reason FROM rowq_ready
    UNION ALL SELECT seq, queue, 'scheduled', attempts, expires_at, NULL FROM rowq_scheduled
    UNION ALL SELECT seq, queue, 'blocked', attempts, expires_at, NULL FROM rowq_blocked
    UNION ALL SELECT seq, queue, 'leased', attempts, expires_at, reason FROM rowq_leased
    UNION ALL SELECT seq, queue, 'dead', attempts, NULL, reason FROM rowq_dead
    UNION ALL SELECT seq, queue, 'finished', attempts, NULL, NULL FROM rowq_history WHERE queue <> ''
"""

_FAULTS = {
    "in two states": "SELECT seq FROM places GROUP BY seq HAVING COUNT(*) > 1",
    "a body in no state": "SELECT seq FROM rowq_messages WHERE seq NOT IN (SELECT seq FROM places)",
    "a state without a body": "SELECT seq FROM places WHERE state <> 'finished' AND seq NOT IN (SELECT seq FROM rowq_messages)",
    "a state of another queue": "SELECT p.seq FROM places p JOIN rowq_messages m USING (seq) WHERE p.queue <> m.queue",
    "a queue that is not listed": "SELECT seq FROM places WHERE queue NOT IN (SELECT name FROM rowq_queues)",
    "a seq that was never drawn": "SELECT seq FROM places WHERE seq > (SELECT value FROM rowq_counters WHERE name = 'seq')",
    "ready out of its rank": "SELECT seq FROM rowq_ready r JOIN rowq_messages m USING (seq) WHERE r.ranking <> -m.priority",
    "moved, and not written down": """
        SELECT r.seq FROM rowq_ready r LEFT JOIN rowq_moved v USING (seq)
        WHERE r.position <> r.seq AND (v.position IS NULL OR v.position <> r.position)""",
    "a move of nobody": "SELECT seq FROM rowq_moved WHERE seq NOT IN (SELECT seq FROM rowq_ready WHERE position <> seq)",
    "two waiting under one key": """
        SELECT MIN(seq) FROM waiting WHERE message_key IS NOT NULL GROUP BY queue, message_key HAVING COUNT(*) > 1""",
    "waiting under a key that does not name it": """
        SELECT w.seq FROM waiting w LEFT JOIN rowq_waiting_keys k USING (queue, message_key)
        WHERE w.message_key IS NOT NULL AND (k.seq IS NULL OR k.seq <> w.seq)""",
    "a key of nobody": """
        SELECT k.seq FROM rowq_waiting_keys k LEFT JOIN members m ON m.seq = k.seq AND m.message_key = k.message_key WHERE m.seq IS NULL""",
    "blocked in no group": """
        SELECT b.seq FROM rowq_blocked b JOIN rowq_messages m USING (seq) WHERE m.group_key IS NULL OR m.group_key <> b.group_key""",
    "a group with two heads": """
        SELECT MIN(seq) FROM members WHERE group_key IS NOT NULL AND state <> 'blocked' GROUP BY queue, group_key HAVING COUNT(*) > 1""",
    "a head that is not written down": """
        SELECT m.seq FROM members m LEFT JOIN rowq_group_heads h USING (queue, group_key)
        WHERE m.group_key IS NOT NULL AND m.state <> 'blocked' AND (h.head IS NULL OR h.head <> m.seq)""",
    "a group that nobody leads": """
        SELECT h.head FROM rowq_group_heads h LEFT JOIN members m ON m.seq = h.head AND m.state <> 'blocked' WHERE m.seq IS NULL
        UNION ALL SELECT b.seq FROM rowq_blocked b LEFT JOIN rowq_group_heads h USING (queue, group_key) WHERE h.head IS NULL""",
    "waiting beyond its expiry": """
        SELECT w.seq FROM waiting w LEFT JOIN rowq_expiring e USING (seq)
        WHERE w.expires_at IS NOT NULL AND (e.ends_at IS NULL OR e.ends_at > w.expires_at)""",
    "an expiry of nobody": "SELECT seq FROM rowq_expiring WHERE seq NOT IN (SELECT seq FROM members)",
    "an own id of nobody": "SELECT seq FROM rowq_own_ids WHERE gone_at IS NULL AND seq NOT IN (SELECT seq FROM places)",
}

_VIEWS = f"""
CREATE TEMP VIEW places AS {_PLACES};
CREATE TEMP VIEW members AS
    SELECT p.seq, p.queue, p.state, p.expires_at, m.message_key, m.group_key FROM places p JOIN rowq_messages m USING (seq)
    WHERE p.state IN ('ready', 'scheduled', 'blocked', 'leased') AND p.reason IS NULL;
CREATE TEMP VIEW waiting AS SELECT * FROM members WHERE state <> 'leased';
"""


class Tables:
    """A second pair of eyes on a database; it never writes."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=30)
        self._connection.executescript(_VIEWS)

    def faults(self) -> dict[str, list[int]]:
        """What is wrong, with the seqs concerned; nothing is well."""
        self._connection.execute("BEGIN")
        try:
            found = {fault: [row[0] for row in self._connection.execute(query)] for fault, query in _FAULTS.items()}
        finally:
            self._connection.execute("ROLLBACK")
        return {fault: seqs for fault, seqs in found.items() if seqs}

    def integrity(self) -> str:
        answer: str = self._connection.execute("PRAGMA integrity_check").fetchone()[0]
        return answer

    def close(self) -> None:
        self._connection.close()


def faults_of(path: Path) -> dict[str, list[int]]:
    """Everything at once, for a database that nobody is changing."""
    tables = Tables(path)
    try:
        damage = tables.integrity()
        return tables.faults() | ({} if damage == "ok" else {damage: [0]})
    finally:
        tables.close()
