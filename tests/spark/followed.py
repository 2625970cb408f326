"""A process that writes lines of audit and history, in transactions that stay open for a moment, until it is told to end.

Run as `python -m tests.spark.followed URL NAME`. It says how many messages it has sent, and how many it has acked.
"""

from __future__ import annotations

import random
import sys
import threading

import psycopg

import rowq
from tests.rivals.process import listen, say

MOST = 20
LONGEST = 0.1


def commit_later(connection: psycopg.Connection, choose: random.Random) -> None:
    """Others write and commit meanwhile: theirs are the higher lines, and are there first."""
    connection.execute("SELECT pg_sleep(%s)", (choose.random() * LONGEST,))
    connection.commit()


def main(url: str, name: str) -> None:
    choose, stop = random.Random(name), threading.Event()
    listen(stop)
    with rowq.connect(url) as broker, psycopg.connect(url) as connection:
        within = broker.within(connection)
        while not stop.is_set():
            sent = within.send_many("orders", [{"from": name}] * choose.randint(1, MOST))
            commit_later(connection, choose)
            acked = within.ack_many(broker.receive("orders", max=choose.randint(1, MOST)))
            commit_later(connection, choose)
            say("wrote", len(sent), acked.count(rowq.Outcome.DONE))


if __name__ == "__main__":
    main(*sys.argv[1:])
