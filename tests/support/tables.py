"""Looks straight into the tables of any database for what must never be there. Every query names the rows that are wrong."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import psycopg

from tests.support.servers.mariadb import connected

_PLACES = """
    SELECT seq, queue, 'ready' AS state, attempts, expires_at, NULL AS reason FROM rowq_ready
    UNION ALL SELECT seq, queue, 'scheduled', attempts, expires_at, NULL FROM rowq_scheduled
    UNION ALL SELECT seq, queue, 'blocked', attempts, expires_at, NULL FROM rowq_blocked
    UNION ALL SELECT seq, queue, 'leased', attempts, expires_at, reason FROM rowq_leased
    UNION ALL SELECT seq, queue, 'dead', attempts, NULL, reason FROM rowq_dead
    UNION ALL SELECT seq, queue, 'finished', attempts, NULL, NULL FROM rowq_history WHERE queue <> ''
"""
_MEMBERS = """
    SELECT p.seq, p.queue, p.state, p.expires_at, m.message_key, m.group_key FROM places p JOIN rowq_messages m USING (seq)
    WHERE p.state IN ('ready', 'scheduled', 'blocked', 'leased') AND p.reason IS NULL
"""
_WAITING = "SELECT * FROM members WHERE state <> 'leased'"

_FAULTS = {
    "in two states": "SELECT seq FROM places GROUP BY seq HAVING COUNT(*) > 1",
    "a body in no state": "SELECT seq FROM rowq_messages WHERE seq NOT IN (SELECT seq FROM places)",
    "a state without a body": "SELECT seq FROM places WHERE state <> 'finished' AND seq NOT IN (SELECT seq FROM rowq_messages)",
    "a state of another queue": "SELECT p.seq FROM places p JOIN rowq_messages m USING (seq) WHERE p.queue <> m.queue",
    "a queue that is not listed": "SELECT seq FROM places WHERE queue NOT IN (SELECT name FROM rowq_queues)",
    "a seq that was never drawn": "SELECT seq FROM places WHERE seq > (<last drawn>)",
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

_STORIES = """
    SELECT DISTINCT seq FROM (
        SELECT seq, event, LAG(event) OVER (PARTITION BY seq ORDER BY id) AS earlier FROM <audit lines>
        WHERE seq IS NOT NULL AND event NOT IN ('extended', 'replaced')
    ) AS story
    WHERE (event = 'delivered' AND (earlier IS NULL OR earlier IN ('delivered', 'acked', 'deleted', 'purged', 'superseded')))
        OR (event IN ('acked', 'nacked', 'released', 'rejected', 'rescheduled', 'lease_expired') AND earlier <> 'delivered')
"""
"""A message is delivered, and then settled or lost by its consumer, before it is delivered again; once, each time."""


class Tables(ABC):
    """A second pair of eyes on a database; it never writes.

    All is asked in one statement: one moment, also while others write.
    """

    last_drawn: str
    """The highest seq that was ever given out."""
    audit_lines: str = "rowq_audit_lines"
    """What has a row for each line of the audit."""

    def __init__(self) -> None:
        asked = [f"SELECT '{fault}' AS fault, found.* FROM ({query}) AS found" for fault, query in _FAULTS.items()]
        text = f"WITH places AS ({_PLACES}), members AS ({_MEMBERS}), waiting AS ({_WAITING})\n" + "\nUNION ALL ".join(asked)
        self._question = text.replace("<last drawn>", self.last_drawn)

    def faults(self) -> dict[str, list[int]]:
        """What is wrong, with the seqs concerned; nothing is well."""
        found: dict[str, list[int]] = {}
        for fault, seq in self._ask(self._question):
            found.setdefault(fault, []).append(seq)
        return found

    def impossible_stories(self) -> dict[str, list[int]]:
        """Messages of which the audit tells what cannot have happened: two held them at once, or settled the same delivery."""
        seqs = [row[0] for row in self._ask(_STORIES.replace("<audit lines>", self.audit_lines))]
        return {"held by two": seqs} if seqs else {}

    def stories(self) -> dict[int, list[str]]:
        """All that the audit tells of each message, in the order in which it happened."""
        told: dict[int, list[str]] = {}
        for seq, event in self._ask(f"SELECT seq, event FROM {self.audit_lines} WHERE seq IS NOT NULL ORDER BY id"):
            told.setdefault(seq, []).append(event)
        return told

    def damage(self) -> dict[str, list[int]]:
        """Where the file itself may be broken, and not only what is in it."""
        return {}

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _ask(self, question: str) -> list[Any]: ...


class SqliteTables(Tables):
    last_drawn = "SELECT value FROM rowq_counters WHERE name = 'seq'"

    def __init__(self, path: Path | str) -> None:
        super().__init__()
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=30)

    def damage(self) -> dict[str, list[int]]:
        ((answer,),) = self._ask("PRAGMA integrity_check")
        return {} if answer == "ok" else {answer: [0]}

    def close(self) -> None:
        self._connection.close()

    def _ask(self, question: str) -> list[Any]:
        return self._connection.execute(question).fetchall()


class PostgresqlTables(Tables):
    last_drawn = "SELECT last_value FROM rowq_seq"

    def __init__(self, url: str) -> None:
        super().__init__()
        # Planning takes longer than looking: it is done once.
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._connection.execute("SET search_path TO rowq; SET plan_cache_mode = force_generic_plan; SET jit = off", prepare=False)
        # A list that does not fit into this is read through for every row.
        self._connection.execute("SET work_mem = '256MB'", prepare=False)

    def close(self) -> None:
        self._connection.close()

    def _ask(self, question: str) -> list[Any]:
        return self._connection.execute(question).fetchall()


class MariadbTables(Tables):
    audit_lines = "rowq_audit"
    last_drawn = "SELECT value FROM rowq_counters WHERE name = 'seq'"

    def __init__(self, url: str) -> None:
        super().__init__()
        self._connection = connected(url)

    def close(self) -> None:
        self._connection.close()

    def _ask(self, question: str) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(question)
            return list(cursor.fetchall())


def tables_of(where: Path | str) -> Tables:
    """Of a SQLite file, or of whatever a URL names."""
    if isinstance(where, Path):
        return SqliteTables(where)
    if where.startswith("postgresql://"):
        return PostgresqlTables(where)
    return MariadbTables(where) if where.startswith("mariadb://") else SqliteTables(where.removeprefix("sqlite:///"))


def faults_of(where: Path | str) -> dict[str, list[int]]:
    """Everything at once."""
    tables = tables_of(where)
    try:
        return tables.faults() | tables.impossible_stories() | tables.damage()
    finally:
        tables.close()
