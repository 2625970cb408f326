"""The design that rowq is held against: one table of jobs with a status, claimed with SKIP LOCKED.

It is how procrastinate and pgqueuer work, without all that they do around it, and in the quickest form that we found: batches are
claimed and finished by one prepared statement each, which commits on its own, and the ids go in as an array. Before a turn the table is
vacuumed and analysed; before that PostgreSQL sorts the whole queue for each claim, and it is six times as slow.

What becomes of a finished row is a choice. procrastinate keeps it under another status; pgqueuer deletes it and writes a line into a
log; to delete it and leave no trace is the quickest, and what rowq itself does on a queue without audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import psycopg

Job = tuple[int, bytes]
"""id, payload"""

QUEUE = "bench"

SCHEMA = """
CREATE TYPE job_status AS ENUM ('queued', 'picked', 'done');

CREATE TABLE jobs (
    id bigserial PRIMARY KEY,
    queue text NOT NULL,
    priority integer NOT NULL DEFAULT 0,
    status job_status NOT NULL DEFAULT 'queued',
    attempts integer NOT NULL DEFAULT 0,
    execute_after timestamptz NOT NULL DEFAULT now(),
    heartbeat timestamptz NOT NULL DEFAULT now(),
    payload bytea NOT NULL
);

CREATE INDEX jobs_queued ON jobs (queue, priority DESC, id) WHERE status = 'queued';
CREATE INDEX jobs_picked ON jobs (heartbeat) WHERE status = 'picked';

CREATE TABLE jobs_log (
    id bigserial PRIMARY KEY,
    created timestamptz NOT NULL DEFAULT now(),
    job_id bigint NOT NULL,
    status job_status NOT NULL,
    queue text NOT NULL,
    priority integer NOT NULL
);

CREATE INDEX jobs_log_job ON jobs_log (job_id, created DESC);
"""

SEND_ONE = "INSERT INTO jobs (queue, payload) VALUES (%s, %s) RETURNING id"
SEND = "INSERT INTO jobs (queue, payload) SELECT %s, unnest(%s::bytea[])"
CLAIM = """
UPDATE jobs
SET status = 'picked', heartbeat = now(), attempts = attempts + 1
WHERE id = ANY (ARRAY(
    SELECT id
    FROM jobs
    WHERE queue = %s AND status = 'queued' AND execute_after <= now()
    ORDER BY priority DESC, id
    LIMIT %s
    FOR UPDATE SKIP LOCKED
))
RETURNING id, payload
"""
KEEP = "UPDATE jobs SET status = 'done' WHERE id = ANY (%s) AND status = 'picked'"
DELETE = "DELETE FROM jobs WHERE id = ANY (%s) AND status = 'picked'"
DELETE_AND_LOG = """
WITH finished AS (
    DELETE FROM jobs WHERE id = ANY (%s) AND status = 'picked' RETURNING id, queue, priority
)
INSERT INTO jobs_log (job_id, status, queue, priority)
SELECT id, 'done', queue, priority FROM finished
"""


class StatusColumn:
    """One connection. `finish` is KEEP, DELETE or DELETE_AND_LOG."""

    def __init__(self, url: str, finish: str = KEEP) -> None:
        self._finish = finish
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._cursor = self._connection.cursor(binary=True)

    def send(self, bodies: list[bytes]) -> None:
        self._cursor.execute(SEND, (QUEUE, bodies))

    def claim(self, most: int) -> list[Job]:
        return self._cursor.execute(CLAIM, (QUEUE, most)).fetchall()

    def finish(self, jobs: Sequence[Job]) -> int:
        """How many were still picked."""
        return self._cursor.execute(self._finish, ([id for id, _ in jobs],)).rowcount

    def take(self, most: int) -> int:
        """Claims and finishes up to so many, and tells how many it were."""
        jobs = self.claim(most)
        finished = self.finish(jobs)
        assert finished == len(jobs)
        return finished

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def install(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SCHEMA)


def settle(url: str) -> None:
    """What autovacuum does within a minute or so; before it has, the planner knows nothing of the table."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
