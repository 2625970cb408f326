"""Counts, straight in the tables and in one statement, while everybody works: what is there is what came less what has left."""

from __future__ import annotations

import time

from trust.torture.ways.hands import Caller
from trust.torture.ways.own import Own

SHARE = 0.05
"""Of the time may be spent on counting: the tables grow, and so does the work."""

COUNTS = """
SELECT queue, SUM(here), SUM(came) FROM (
    SELECT queue, COUNT(*) AS here, 0 AS came FROM rowq_ready GROUP BY queue
    UNION ALL SELECT queue, COUNT(*), 0 FROM rowq_scheduled GROUP BY queue
    UNION ALL SELECT queue, COUNT(*), 0 FROM rowq_blocked GROUP BY queue
    UNION ALL SELECT queue, COUNT(*), 0 FROM rowq_leased GROUP BY queue
    UNION ALL SELECT queue, COUNT(*), 0 FROM rowq_dead GROUP BY queue
    UNION ALL SELECT queue, COUNT(*), 0 FROM rowq_history WHERE queue <> '' GROUP BY queue
    UNION ALL SELECT queue, 0, COUNT(*) FROM <audit> WHERE seq IS NOT NULL AND event = 'enqueued' GROUP BY queue
    UNION ALL SELECT queue, 0, -COUNT(*) FROM <audit> WHERE seq IS NOT NULL AND event IN ('purged', 'deleted') GROUP BY queue
    UNION ALL SELECT queue, 0, -COUNT(*) FROM <audit> WHERE seq IS NOT NULL AND event = 'acked' AND queue = 'plain' GROUP BY queue
) AS counted GROUP BY queue
"""
"""(queue, how many are there, how many there must be). Where history is kept, what is done is still there."""


def count(own: Own, caller: Caller) -> None:
    began = time.monotonic()
    caller.call("count", [], lambda: counted(own), lambda counts: [counts])
    caller.stop.wait(max(1.0, (time.monotonic() - began) / SHARE))


def counted(own: Own) -> list[list[object]]:
    return [[queue, int(here), int(came)] for queue, here, came in own.ask(COUNTS.replace("<audit>", own.audit_lines))]
