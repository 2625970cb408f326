"""The limit: the same tables of the same schema file, driven by raw SQL with nothing around it.

No options, no checks, no receipts, no ids, no JSON, no waiting, no second process: bodies are bytes that were made beforehand, and
the next seq is kept in memory. What is left is what SQLite itself takes to move a message through these tables.

`RawQueue` is the loop that a good engineer would write: rows in by `executemany`, rows out by one statement. `RawSets` also moves
rows from table to table inside the database; it can, because it knows that every message is alike and leases under one token.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Self

import rowq

Ready = tuple[int, int, int, int, bytes]
"""ranking, position, seq, attempts, body"""

Leased = tuple[int, int, bytes]
"""seq, token, body"""

_QUEUE = "bench"
_LEASE_MS = 30_000
_CHECKPOINT_PAGES = 10_000
"""As rarely as rowq does it, so that the code makes the difference and not the pragma."""

_INSERT_MESSAGE = """
INSERT INTO rowq_messages (seq, sent_at, queue, format, payload, priority, delay_ms, marks)
VALUES (?, ?, ?, 0, ?, 0, 0, 0)
"""
_INSERT_READY = "INSERT INTO rowq_ready (queue, ranking, position, seq, attempts) VALUES (?, 0, ?, ?, 0)"
_TAKE_READY = """
SELECT r.ranking, r.position, r.seq, r.attempts, m.payload
FROM rowq_ready r
JOIN rowq_messages m ON m.seq = r.seq
WHERE r.queue = ?
ORDER BY r.ranking, r.position, r.seq
LIMIT ?
"""
# What was taken is a run of the index, rank by rank: one statement removes it.
_DELETE_READY = "DELETE FROM rowq_ready WHERE queue = ? AND ranking = ? AND position BETWEEN ? AND ?"
_INSERT_LEASED = "INSERT INTO rowq_leased (seq, queue, lease_until, token, leased_at, attempts, marks) VALUES (?, ?, ?, ?, ?, ?, 0)"
_DELETE_LEASED = "DELETE FROM rowq_leased WHERE seq IN (SELECT value FROM json_each(?)) AND token = ?"
_DELETE_MESSAGE = "DELETE FROM rowq_messages WHERE seq IN (SELECT value FROM json_each(?))"
_MAKE_READY = """
INSERT INTO rowq_ready (queue, ranking, position, seq, attempts)
SELECT queue, -priority, seq, seq, 0
FROM rowq_messages
WHERE seq BETWEEN ? AND ?
"""
_LEASE_READY = """
INSERT INTO rowq_leased (seq, queue, lease_until, token, leased_at, attempts, marks)
SELECT seq, queue, ?, ?, ?, attempts + 1, 0
FROM rowq_ready
WHERE queue = ? AND ranking = ? AND position BETWEEN ? AND ?
"""


class RawQueue:
    def __init__(self, file: Path, *, synchronous: str) -> None:
        rowq.migrate(f"sqlite:///{file.absolute()}")
        self._connection = sqlite3.connect(file, isolation_level=None)
        self._connection.execute("PRAGMA temp_store = MEMORY")
        self._connection.execute(f"PRAGMA synchronous = {synchronous}")
        self._connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        self._connection.execute("PRAGMA secure_delete = FAST")
        self._seq = 0

    def send(self, bodies: list[bytes]) -> None:
        now = time.time_ns() // 1_000_000
        first = self._seq + 1
        self._seq += len(bodies)
        run = self._connection
        run.execute("BEGIN IMMEDIATE")
        run.executemany(_INSERT_MESSAGE, [(seq, now, _QUEUE, body) for seq, body in enumerate(bodies, first)])
        self._make_ready(first, self._seq)
        run.execute("COMMIT")

    def receive(self, most: int) -> list[Leased]:
        now = time.time_ns() // 1_000_000
        token = int.from_bytes(os.urandom(8), "big") >> 1
        run = self._connection
        run.execute("BEGIN IMMEDIATE")
        rows = run.execute(_TAKE_READY, (_QUEUE, most)).fetchall()
        self._lease(rows, token, now)
        for ranking, ranked in groupby(rows, itemgetter(0)):
            positions = [row[1] for row in ranked]
            run.execute(_DELETE_READY, (_QUEUE, ranking, positions[0], positions[-1]))
        run.execute("COMMIT")
        return [(row[2], token, row[4]) for row in rows]

    def ack(self, leased: list[Leased]) -> int:
        """Leases of one receive. Gives how many were still held."""
        seqs = json.dumps([seq for seq, _, _ in leased])
        run = self._connection
        run.execute("BEGIN IMMEDIATE")
        held = run.execute(_DELETE_LEASED, (seqs, leased[0][1])).rowcount
        run.execute(_DELETE_MESSAGE, (seqs,))
        run.execute("COMMIT")
        return held

    def _make_ready(self, first: int, last: int) -> None:
        self._connection.executemany(_INSERT_READY, [(_QUEUE, seq, seq) for seq in range(first, last + 1)])

    def _lease(self, rows: list[Ready], token: int, now: int) -> None:
        leased = [(row[2], _QUEUE, now + _LEASE_MS, token, now, row[3] + 1) for row in rows]
        self._connection.executemany(_INSERT_LEASED, leased)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class RawSets(RawQueue):
    def _make_ready(self, first: int, last: int) -> None:
        self._connection.execute(_MAKE_READY, (first, last))

    def _lease(self, rows: list[Ready], token: int, now: int) -> None:
        for ranking, ranked in groupby(rows, itemgetter(0)):
            positions = [row[1] for row in ranked]
            run = (_QUEUE, ranking, positions[0], positions[-1])
            self._connection.execute(_LEASE_READY, (now + _LEASE_MS, token, now, *run))
