"""A client that dequeues inside a transaction and waits to be told: run as `python -m tests.compat.peq.dying URL`."""

from __future__ import annotations

import sys

import psycopg

from tests.rivals.process import say


def main(url: str, committed: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CALL test01.enqueue('\"unsent\"')")
        row = connection.execute("SELECT msg_id FROM test01.dequeue('doomed')").fetchone()
        assert row is not None
        if committed == "True":
            connection.commit()
            connection.execute("CALL test01.message_ack(%s, 'doomed', 'too early')", row)
        say("holds", str(row[0]))
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
