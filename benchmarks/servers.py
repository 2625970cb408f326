"""The database servers that are measured: private ones, on real disks, durable as a careful user would run them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import psycopg

from benchmarks.cores import cpu_of_server
from benchmarks.harness import Bench, Chapter, Gauge, Timing, Turn
from benchmarks.machine import file_system
from tests.support.servers import OwnServer, Server, Unavailable, own_mariadb, own_postgresql
from tests.support.servers.mariadb import connected
from tests.support.servers.server import Setting

POSTGRESQL: dict[str, Setting] = {
    "fsync": True,
    "full_page_writes": True,
    "synchronous_commit": "on",
    "shared_buffers": "512MB",
    "timezone": "UTC",
}
MARIADB: dict[str, Setting] = {"innodb_flush_log_at_trx_commit": 1, "innodb_buffer_pool_size": "512M"}


SERVER_CPU = Gauge("server CPU a message", "µs")
"""Of all its processes: also of what they did in the background for those who had their turns before."""


class Host:
    """A running server, on which every contestant gets a database of its own."""

    def __init__(self, server: Server, note: str = "") -> None:
        self._server = server
        self._numbers = count(1)
        self.note = note

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of an empty one, which is dropped afterwards."""
        name = f"bench_{os.getpid()}_{next(self._numbers)}"  # the process: a test runs beside others on one server
        self._server.create_database(name)
        try:
            yield self._server.url(name)
        finally:
            self._server.drop_database(name)

    @property
    def pid(self) -> int:
        """0 for a server that is not ours."""
        return self._server.pid if isinstance(self._server, OwnServer) else 0

    def cpu(self) -> float:
        """Seconds that its processes have spent."""
        return cpu_of_server(self.pid)

    def turn(self, gauge: Gauge, work: Callable[[], Timing], cpu: Gauge = SERVER_CPU) -> Turn:
        """What the work took, and what the server's processes took meanwhile."""
        before = self.cpu()
        timing = work()
        return {gauge: timing, cpu: Timing(self.cpu() - before, timing.messages)}


@contextmanager
def held_snapshot(url: str) -> Iterator[None]:
    """As a report or a forgotten session on PostgreSQL holds one: nothing that dies meanwhile may be cleaned away."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")  # the first query takes the snapshot
        yield
        still = connection.execute("SELECT backend_xmin IS NOT NULL FROM pg_stat_activity WHERE pid = pg_backend_pid()").fetchone()
        assert still == (True,), "the snapshot was lost on the way"
        connection.execute("COMMIT")


Measure = Callable[[Bench, Host], Chapter]


def on_postgresql(bench: Bench, name: str, title: str, measure: Measure) -> Chapter:
    """What was measured on a PostgreSQL that lives as long as the chapter; or a chapter that says why there is none."""
    try:
        with bench.scratch.room() as room, own_postgresql(room, **POSTGRESQL) as server:
            with psycopg.connect(server.url("postgres")) as connection:
                (version,) = connection.execute("SHOW server_version").fetchone() or ("",)
            return measure(bench, Host(server, _note(server, version, "fsync and synchronous_commit on")))
    except Unavailable as missing:
        return _empty(name, title, missing)


def on_mariadb(bench: Bench, name: str, title: str, measure: Measure) -> Chapter:
    try:
        with bench.scratch.room() as room, own_mariadb(room, **MARIADB) as server:
            with connected(server.url("")) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT VERSION()")
                version = cursor.fetchall()[0][0].partition("-")[0]
            return measure(bench, Host(server, _note(server, version, "innodb_flush_log_at_trx_commit = 1")))
    except Unavailable as missing:
        return _empty(name, title, missing)


def _note(server: OwnServer, version: str, durability: str) -> str:
    return f"{server.name} {version}, {durability}; 512 MB for its cache, else as it comes, on {file_system(server.data)}."


def _empty(name: str, title: str, missing: Unavailable) -> Chapter:
    return Chapter(name, title, [], [], [f"{missing} Nothing was measured."])
