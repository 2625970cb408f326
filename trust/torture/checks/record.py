"""What the database says of itself, into the evidence: read past rowq, straight from its tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import msgspec
import psycopg
from pymysql.cursors import SSCursor

import rowq
from tests.support.servers.mariadb import connected
from trust.torture.checks.evidence import Evidence
from trust.torture.queues import QUEUES

_AT_ONCE = 50_000
_PLACES = """
SELECT p.seq, p.queue, p.state, p.attempts, m.group_key FROM (
    SELECT seq, queue, 'ready' AS state, attempts FROM rowq_ready
    UNION ALL SELECT seq, queue, 'scheduled', attempts FROM rowq_scheduled
    UNION ALL SELECT seq, queue, 'blocked', attempts FROM rowq_blocked
    UNION ALL SELECT seq, queue, 'leased', attempts FROM rowq_leased
    UNION ALL SELECT seq, queue, 'dead', attempts FROM rowq_dead
) AS p LEFT JOIN rowq_messages m ON m.seq = p.seq
UNION ALL SELECT seq, queue, outcome, attempts, group_key FROM rowq_history WHERE queue <> ''
"""


def read(evidence: Evidence, url: str) -> None:
    """The whole audit, where each message is, and what is left of bodies."""
    audit = "rowq_audit" if url.startswith("mariadb://") else "rowq_audit_lines"
    questions = {
        "events": f"SELECT id, at, queue, seq, event, attempt, actor, detail FROM {audit} WHERE queue <> ''",
        "places": _PLACES,
        "own_ids": "SELECT id, seq FROM rowq_own_ids",
    }
    for table, question in questions.items():
        for rows in _pieces(rows_of(url, question)):
            evidence.put(table, rows)
    for rows in _pieces(rows_of(url, "SELECT seq, payload, group_key FROM rowq_messages")):
        evidence.put("bodies", [(seq, msgspec.json.decode(bytes(payload))["name"], group) for seq, payload, group in rows])
    with rowq.connect(url, maintenance=False) as broker:
        for queue in QUEUES:
            stats = broker.stats(queue)
            counts = {"ready": stats.ready, "scheduled": stats.scheduled, "leased": stats.leased, "blocked": stats.blocked}
            counts |= {"dead": stats.dead, "finished": stats.finished}
            evidence.put("stats", [(queue, state, count) for state, count in counts.items()])


def rows_of(url: str, question: str) -> Iterator[Any]:
    """One after another: a long audit is never in memory as a whole."""
    if url.startswith("postgresql://"):
        with psycopg.connect(url, options="-c search_path=rowq") as postgresql, postgresql.cursor(name="everything") as portal:
            portal.itersize = _AT_ONCE
            yield from portal.execute(question)
    elif url.startswith("mariadb://"):
        with closing(connected(url, cursorclass=SSCursor)) as mariadb, mariadb.cursor() as cursor:
            cursor.execute(question)
            yield from cursor
    else:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///").partition("?")[0])) as sqlite:
            yield from sqlite.execute(question)


def _pieces(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while piece := list(islice(rows, _AT_ONCE)):
        yield piece
