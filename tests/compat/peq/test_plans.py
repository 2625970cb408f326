"""What a verb costs does not grow with what is in the queue, also where it was planned while there was nothing."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import rowq
from tests.compat.peq.sql import Sql

MANY = 5_000
MOST_ROWS = 20
"""That a verb may look at, in all tables together."""

TABLES = "rowq.rowq_ready, rowq.rowq_scheduled, rowq.rowq_leased, rowq.rowq_messages, rowq.rowq_history, rowq.rowq_audit, rowq.rowq_own_ids"
SETTLED = """
DO $$
DECLARE
    id UUID := (SELECT msg_id FROM test01.dequeue('client01'));
BEGIN
    CALL test01.message_{verb}(id, 'client01', 'because');
END $$
"""
LIFE = [
    ("CALL test01.enqueue('{}', '0303596d-ed09-4b82-9cbd-6d36c41eeb6d')", 1),
    ("SELECT * FROM test01.dequeue('client01')", 1),
    (SETTLED.format(verb="nak"), 2),
    (SETTLED.format(verb="ack"), 2),
    (SETTLED.format(verb="rej"), 2),
    ("CALL test01.message_reschedule('0303596d-ed09-4b82-9cbd-6d36c41eeb6d')", 1),
    ("CALL test01.message_reschedule('0303596d-ed09-4b82-9cbd-6d36c41eeb6d', -1)", 1),
    ("CALL test01.add_audit('0303596d-ed09-4b82-9cbd-6d36c41eeb6d', 1, 'me', 'looked at')", 1),
]
LOOKED_AT = """
    SELECT relname, seq_scan, seq_tup_read + COALESCE(idx_tup_fetch, 0)
    FROM pg_stat_xact_user_tables
    WHERE schemaname = 'rowq'
"""


def looked_at(client: psycopg.Connection, statement: str) -> Iterator[tuple[str, int, int]]:
    """For each table: how often a statement has read all of it, and how many rows it has looked at."""
    before = {name: counts for name, *counts in client.execute(LOOKED_AT).fetchall()}
    client.execute(statement.encode())
    for name, *counts in client.execute(LOOKED_AT).fetchall():
        yield name, counts[0] - before[name][0], counts[1] - before[name][1]
    client.commit()


@pytest.fixture
def client(url: str, sql: Sql) -> Iterator[psycopg.Connection]:
    """It has done everything once before anything was there."""
    sql(f"VACUUM ANALYZE {TABLES}")
    with psycopg.connect(url) as client:
        for statement in (*["CALL test01.enqueue('{}')"] * len(LIFE), *(statement for statement, _ in LIFE)):
            client.execute(statement.encode())
        client.rollback()
        yield client


def test_a_verb_looks_at_a_few_rows_however_many_there_are(client: psycopg.Connection, broker: rowq.Broker) -> None:
    broker.send_many("test01", range(MANY))
    assert len(broker.receive("test01", max=1_000, lease=3_600)) == 1_000
    broker.ack_many(broker.receive("test01", max=1_000))
    broker.send_many("test01", range(MANY), delay=3_600)
    for statement, verbs in LIFE:
        assert sum(rows for _, _, rows in looked_at(client, statement)) <= MOST_ROWS * verbs, statement


def test_no_table_is_read_from_end_to_end(client: psycopg.Connection, broker: rowq.Broker) -> None:
    broker.send_many("test01", range(10))
    for statement, _ in LIFE:
        assert [name for name, scans, _ in looked_at(client, statement) if scans] == [], statement
