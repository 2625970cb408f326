"""The limit on MariaDB: a message's way through tables like rowq's, driven by raw SQL with nothing around it.

Bodies, ready and leased rows are tables of their own, each found by its primary key, as rowq has them. READ COMMITTED, SKIP LOCKED,
rows in key order; a receive is a transaction, and so is an ack. No options, no checks, no receipts, no JSON.
"""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Any, Self

from tests.support.servers.mariadb import connected

Leased = tuple[int, bytes]
"""seq, body"""

_QUEUE = "bench"
_LEASE_MS = 30_000

_SCHEMA = (
    """
    CREATE TABLE messages (
        seq BIGINT PRIMARY KEY,
        sent_at BIGINT NOT NULL,
        queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        payload LONGBLOB NOT NULL
    )
    """,
    """
    CREATE TABLE ready (
        queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        ranking INT NOT NULL,
        position BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        attempts INT NOT NULL,
        PRIMARY KEY (queue, ranking, position, seq)
    )
    """,
    """
    CREATE TABLE leased (
        seq BIGINT PRIMARY KEY,
        queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        lease_until BIGINT NOT NULL,
        token BIGINT NOT NULL,
        attempts INT NOT NULL,
        KEY leased_until (queue, lease_until, seq)
    )
    """,
)
_INSERT_MESSAGES = "INSERT INTO messages (seq, sent_at, queue, payload) VALUES (%s, %s, %s, %s)"
_INSERT_READY = "INSERT INTO ready (queue, ranking, position, seq, attempts) VALUES (%s, %s, %s, %s, %s)"
_TAKE_READY = """
SELECT r.seq, r.attempts, m.payload
FROM ready r
JOIN messages m ON m.seq = r.seq
WHERE r.queue = %s
ORDER BY r.queue, r.ranking, r.position, r.seq
LIMIT %s
FOR UPDATE SKIP LOCKED
"""
_DELETE_READY = "DELETE FROM ready WHERE queue = %s AND ranking = 0 AND position IN %s"
_INSERT_LEASED = "INSERT INTO leased (seq, queue, lease_until, token, attempts) VALUES (%s, %s, %s, %s, %s)"
_DELETE_LEASED = "DELETE FROM leased WHERE seq IN %s AND token = %s"
_DELETE_MESSAGES = "DELETE FROM messages WHERE seq IN %s"


class RawMariadb:
    """One connection."""

    def __init__(self, url: str) -> None:
        self._connection: Any = connected(url)
        self._connection.autocommit(False)
        self._cursor = self._connection.cursor()
        self._cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        for statement in _SCHEMA:
            self._cursor.execute(statement)
        self._seq = 0
        self._token = 0

    def send(self, bodies: list[bytes]) -> None:
        first, now = self._seq + 1, time.time_ns() // 1_000_000
        self._seq += len(bodies)
        self._cursor.executemany(_INSERT_MESSAGES, [(seq, now, _QUEUE, body) for seq, body in enumerate(bodies, first)])
        self._cursor.executemany(_INSERT_READY, [(_QUEUE, 0, seq, seq, 0) for seq in range(first, self._seq + 1)])
        self._connection.commit()

    def receive(self, most: int) -> list[Leased]:
        until = time.time_ns() // 1_000_000 + _LEASE_MS
        self._token = int.from_bytes(os.urandom(8), "big") >> 1
        self._cursor.execute(_TAKE_READY, (_QUEUE, most))
        rows = self._cursor.fetchall()
        self._cursor.execute(_DELETE_READY, (_QUEUE, [seq for seq, _, _ in rows]))
        self._cursor.executemany(_INSERT_LEASED, [(seq, _QUEUE, until, self._token, attempts + 1) for seq, attempts, _ in rows])
        self._connection.commit()
        return [(seq, body) for seq, _, body in rows]

    def ack(self, leased: list[Leased]) -> int:
        """Leases of the last receive. Gives how many were still held."""
        seqs = [seq for seq, _ in leased]
        held: int = self._cursor.execute(_DELETE_LEASED, (seqs, self._token))
        self._cursor.execute(_DELETE_MESSAGES, (seqs,))
        self._connection.commit()
        return held

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
