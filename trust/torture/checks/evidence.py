"""Everything that is known of a run, in tables: what the participants wrote down, and what the database says of itself.

It is a file of SQLite, so that millions of lines need no memory, and so that whoever wants to know more can ask it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]

_SCHEMA = """
-- Calls of participants. fate: answered, refused (an error that says that nothing was done) or unknown (no answer, or one that says so).
CREATE TABLE calls (id INTEGER PRIMARY KEY, participant TEXT, way TEXT, thread INTEGER, number INTEGER, verb TEXT, subject TEXT,
    asked INTEGER, answered INTEGER, fate TEXT, code TEXT);
-- A message of a send, by the name that it carries; seq where an answer told it.
CREATE TABLE sent (name TEXT PRIMARY KEY, call INTEGER, place INTEGER, queue TEXT, message_key TEXT, group_key TEXT, id TEXT,
    ttl_ms INTEGER, delay_ms INTEGER, seq INTEGER) WITHOUT ROWID;
-- A message in the answer to a receive. tag is the name under which it was received.
CREATE TABLE taken (id INTEGER PRIMARY KEY, call INTEGER, tag TEXT, seq INTEGER, attempt INTEGER, until INTEGER, name TEXT,
    group_key TEXT, token INTEGER);
-- What was said of a delivery; taken is NULL where the receipt was made up. outcome: done, refused or unknown.
CREATE TABLE said (id INTEGER PRIMARY KEY, call INTEGER, verb TEXT, taken INTEGER, seq INTEGER, outcome TEXT, until INTEGER);
CREATE TABLE counts (call INTEGER, queue TEXT, here INTEGER, came INTEGER);
CREATE TABLE crashes (call INTEGER, what TEXT);
-- The database: its audit, where messages are in the end, which bodies are left, and ids that callers brought.
CREATE TABLE events (id INTEGER PRIMARY KEY, at INTEGER, queue TEXT, seq INTEGER, event TEXT, attempt INTEGER, actor TEXT, detail TEXT);
CREATE TABLE places (seq INTEGER, queue TEXT, state TEXT, attempts INTEGER, group_key TEXT);
CREATE TABLE bodies (seq INTEGER PRIMARY KEY, name TEXT, group_key TEXT);
CREATE TABLE own_ids (id TEXT PRIMARY KEY, seq INTEGER) WITHOUT ROWID;
CREATE TABLE deletions (call INTEGER, id TEXT, seq INTEGER);
CREATE TABLE stats (queue TEXT, state TEXT, count INTEGER);
"""

_INDEXES = """
CREATE INDEX sent_seq ON sent (seq);
CREATE INDEX sent_call ON sent (call);
CREATE INDEX taken_seq ON taken (seq);
CREATE INDEX taken_name ON taken (name);
CREATE INDEX said_seq ON said (seq);
CREATE INDEX events_seq ON events (seq);
CREATE INDEX places_seq ON places (seq);
CREATE INDEX deletions_seq ON deletions (seq);
CREATE INDEX bodies_name ON bodies (name);
ANALYZE;
"""

_LINES = """
SELECT c.asked, c.answered, c.participant || '.' || c.thread || '.' || c.number, c.verb, c.fate, coalesce(c.code, ''), what FROM (
    SELECT call, 'as ' || name AS what FROM sent WHERE seq = ?1
    UNION ALL SELECT call, 'got attempt ' || coalesce(attempt, '?') || ' until ' || until || ' ' || name FROM taken WHERE seq = ?1
    UNION ALL SELECT call, 'of ' || coalesce((SELECT tag FROM taken t WHERE t.id = said.taken), 'a forged receipt') || ': ' || outcome
        FROM said WHERE seq = ?1
) JOIN calls c ON c.id = call ORDER BY c.asked
"""


class Evidence:
    def __init__(self, path: Path | str = ":memory:") -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000;")
        self._connection.executescript(_SCHEMA)
        self._connection.execute("BEGIN")

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Rows with a value for each column, in the order of the table."""
        columns = len(self._connection.execute(f"SELECT * FROM {table} LIMIT 0").description)
        self._connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})", rows)

    def is_complete(self) -> None:
        """All is told: ids that callers brought are put in relation to their messages, and questions may be asked."""
        for table in ("sent", "taken", "said", "deletions"):
            self._connection.execute(
                f"UPDATE {table} SET seq = (SELECT o.seq FROM own_ids o WHERE o.id = {table}.seq) WHERE typeof(seq) = 'text'"
            )
        self._connection.execute("COMMIT")
        self._connection.executescript(_INDEXES)

    def ask(self, question: str, *values: object) -> Iterator[Row]:
        return self._connection.execute(question, values)

    def story_of(self, seq: int) -> str:
        """What is known of a message, for whoever reads of a violation: the audit, and the participants' lines in the order of time."""
        events = self.ask("SELECT id, at, event, attempt, actor, coalesce(detail, '') FROM events WHERE seq = ? ORDER BY id", seq)
        told = ["    audit {}: at {} {} attempt={} by {} {}".format(*row) for row in events]
        lines = self.ask(_LINES, seq)
        return "\n".join(told + ["    log: {} to {} {} {} {} {} {}".format(*row) for row in lines])

    def close(self) -> None:
        self._connection.close()
