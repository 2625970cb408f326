"""A program that shares the SQLite file with rowq and does not care for it.

python -m trust.torture.meddler hold PATH         keeps the write lock until it is killed
python -m trust.torture.meddler abandon PATH      has written much that it never commits, until it is killed
python -m trust.torture.meddler checkpoint PATH   brings the log into the file, as often as it can, until it is killed
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from contextlib import suppress

_LITTER = b"x" * 1000
BUSY = "busy"
"""Said once it has begun."""


def main(what: str, path: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    if what == "checkpoint":
        _checkpoint(connection)
    connection.execute("PRAGMA cache_size = 10")  # what does not fit goes into the log, uncommitted
    connection.execute("BEGIN IMMEDIATE")
    if what == "abandon":
        connection.execute("CREATE TABLE litter (body BLOB)")
        connection.executemany("INSERT INTO litter VALUES (?)", [(_LITTER,)] * 2000)
    print(BUSY, flush=True)
    threading.Event().wait()


def _checkpoint(connection: sqlite3.Connection) -> None:
    print(BUSY, flush=True)
    moment = threading.Event()
    while True:
        for how in ("PASSIVE", "FULL", "RESTART", "TRUNCATE"):
            with suppress(sqlite3.OperationalError):  # somebody is at it
                connection.execute(f"PRAGMA wal_checkpoint({how})")
            moment.wait(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
