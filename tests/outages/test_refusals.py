"""A server that will not have us: the documented error, soon, with what to do about it, and never with a password."""

from __future__ import annotations

import socket
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import psycopg
import pymysql
import pytest

import rowq
from rowq import StoreBusy, StoreReadOnly, StoreUnavailable
from tests.outages.address import altered
from tests.outages.conftest import OurServer
from tests.support.asking import ask, connection_to
from tests.support.background import Background
from tests.support.servers import own_mariadb, own_postgresql

SOON = 12.0
PASSWORD = "hem/lig@het"  # noqa: S105  # of users who live as long as a test
IN_URL = "hem%2Flig%40het"
_numbers = count(1)


def refused(error: type[rowq.RowqError], advice: str, call: Callable[[], Any], within: float = SOON) -> None:
    """Nothing of the password is anywhere in the traceback: that is what people paste."""
    started = time.monotonic()
    with pytest.raises(error, match=advice) as raised:
        call()
    assert time.monotonic() - started < within
    assert type(raised.value) is error
    told = "".join(traceback.format_exception(raised.value))
    assert [secret for secret in (PASSWORD, IN_URL) if secret in told] == []


class Somebody:
    """A user with no rights but those that a test grants."""

    def __init__(self, server: OurServer, kind: str) -> None:
        self._home = server.url("postgres" if kind == "postgresql" else "")
        self._is_postgresql = kind == "postgresql"
        self.name = f"somebody_{next(_numbers)}"
        self.in_url = f"{self.name}:{IN_URL}"
        self._spelled = self.name if self._is_postgresql else f"{self.name}@'%'"
        self.say(
            f"CREATE ROLE {self.name} LOGIN PASSWORD '{PASSWORD}'"
            if self._is_postgresql
            else f"CREATE USER {self._spelled} IDENTIFIED BY '{PASSWORD}'"
        )

    def say(self, statement: str, url: str | None = None) -> None:
        ask(url or self._home, statement.replace("<somebody>", self._spelled))

    def may_do_everything(self, url: str, database: str) -> None:
        if self._is_postgresql:
            self.say(f"GRANT ALL ON DATABASE {database} TO <somebody>")
            for what in ("SCHEMA rowq", "ALL TABLES IN SCHEMA rowq", "ALL SEQUENCES IN SCHEMA rowq"):
                self.say(f"GRANT ALL ON {what} TO <somebody>", url)
        else:
            self.say(f"GRANT ALL ON {database}.* TO <somebody>")

    def leave(self, url: str) -> None:
        if self._is_postgresql:
            self.say("DROP OWNED BY <somebody>", url)
            self.say("DROP ROLE <somebody>")
        else:
            self.say("DROP USER <somebody>")


@pytest.fixture
def database(url: str) -> str:
    return url.partition("://")[2].partition("/")[2].partition("?")[0]


@pytest.fixture
def somebody(server: OurServer, kind: str, url: str) -> Iterator[Somebody]:
    somebody = Somebody(server, kind)
    yield somebody
    somebody.leave(url)


@pytest.fixture
def bare(server: OurServer) -> Iterator[str]:
    """The name of a database in which nobody has made tables."""
    name = f"bare_{next(_numbers)}"
    server.create_database(name)
    yield name
    server.drop_database(name)


class TestConnecting:
    def test_with_a_wrong_password(self, url: str, kind: str) -> None:
        name = "postgres" if kind == "postgresql" else "rowq"
        refused(StoreUnavailable, "refuses .*password", lambda: rowq.connect(altered(url, user=f"{name}:{IN_URL}")), within=5)

    def test_as_nobody_whom_the_server_knows(self, url: str) -> None:
        refused(StoreUnavailable, "refuses", lambda: rowq.connect(altered(url, user=f"nobody_at_all:{IN_URL}")), within=5)

    def test_to_a_host_that_there_is_not(self, url: str) -> None:
        elsewhere = altered(url, user=f"x:{IN_URL}", host="roles.invalid")
        refused(StoreUnavailable, "is it running, and are host and port right", lambda: rowq.connect(elsewhere))

    def test_to_a_port_where_nobody_listens(self, url: str) -> None:
        elsewhere = altered(url, user=f"x:{IN_URL}", port=1)
        refused(StoreUnavailable, "is it running, and are host and port right", lambda: rowq.connect(elsewhere), within=5)

    def test_to_a_port_where_somebody_listens_and_says_nothing(self, url: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            elsewhere = altered(url, user=f"x:{IN_URL}", port=silent.getsockname()[1])
            refused(StoreUnavailable, "is it running, and are host and port right", lambda: rowq.connect(elsewhere))

    def test_to_a_database_that_there_is_not(self, url: str) -> None:
        refused(StoreUnavailable, "create it first", lambda: rowq.connect(altered(url, database="nowhere")), within=5)

    def test_without_the_right_to_make_tables(self, url: str, kind: str, bare: str, somebody: Somebody) -> None:
        if kind == "mariadb":
            somebody.say(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {bare}.* TO <somebody>")
        theirs = altered(url, user=somebody.in_url, database=bare)
        refused(StoreUnavailable, "GRANT them, or let an owner run `rowq migrate`", lambda: rowq.connect(theirs), within=5)

    def test_without_any_right_to_the_tables(self, url: str, somebody: Somebody) -> None:
        refused(StoreUnavailable, "GRANT", lambda: rowq.connect(altered(url, user=somebody.in_url)), within=5)


def test_a_call_without_the_right_to_write(url: str, kind: str, database: str, somebody: Somebody) -> None:
    if kind == "postgresql":
        for what in ("USAGE ON SCHEMA rowq", "SELECT ON ALL TABLES IN SCHEMA rowq"):
            somebody.say(f"GRANT {what} TO <somebody>", url)
    else:
        somebody.say(f"GRANT SELECT ON {database}.* TO <somebody>")
    with rowq.connect(altered(url, user=somebody.in_url), upkeep=False) as broker:
        refused(StoreUnavailable, "GRANT", lambda: broker.send("q", "x"), within=5)
        assert broker.stats("q").depth == 0


@pytest.fixture
def reading_only(server: OurServer, kind: str, url: str, database: str, somebody: Somebody) -> Iterator[str]:
    """The URL of a user who has every right, at a server that is read-only for it."""
    somebody.may_do_everything(url, database)
    on, off = {
        "postgresql": ("ALTER ROLE <somebody> SET default_transaction_read_only = on", "ALTER ROLE <somebody> RESET ALL"),
        "mariadb": ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0"),
    }[kind]
    somebody.say(on)
    yield altered(url, user=somebody.in_url)
    somebody.say(off)


class TestReadOnly:
    def test_tables_cannot_be_made(self, reading_only: str, bare: str, kind: str, somebody: Somebody) -> None:
        somebody.say(f"GRANT ALL ON DATABASE {bare} TO <somebody>" if kind == "postgresql" else f"GRANT ALL ON {bare}.* TO <somebody>")
        try:
            refused(StoreReadOnly, "address of the primary", lambda: rowq.connect(altered(reading_only, database=bare)), within=5)
        finally:
            if kind == "postgresql":
                somebody.say(f"REVOKE ALL ON DATABASE {bare} FROM <somebody>")

    def test_reading_works_and_a_write_says_why_not(self, reading_only: str) -> None:
        with rowq.connect(reading_only, upkeep=False) as broker:
            assert broker.stats("q").depth == 0
            refused(StoreReadOnly, "address of the primary", lambda: broker.send("q", "x"), within=5)
            refused(StoreReadOnly, "address of the primary", lambda: broker.configure("q", max_attempts=7), within=5)


class TestTooManyConnections:
    def test_of_this_user(self, url: str, kind: str, database: str, somebody: Somebody) -> None:
        somebody.may_do_everything(url, database)
        limit = {"postgresql": "ALTER ROLE <somebody> CONNECTION LIMIT 1", "mariadb": "ALTER USER <somebody> WITH MAX_USER_CONNECTIONS 1"}
        somebody.say(limit[kind])
        theirs = altered(url, user=somebody.in_url)
        with closing(connection_to(theirs)):
            refused(StoreBusy, "raise its max_|put a pooler", lambda: rowq.connect(theirs), within=5)

    @pytest.mark.parametrize("are_reserved", [True, False], ids=["but for administrators", "not even for administrators"])
    def test_of_everybody(self, small: Small, are_reserved: bool) -> None:
        with ExitStack() as held:
            _take_all(small.theirs, held)
            if not are_reserved:
                _take_all(small.ours, held)
            refused(StoreBusy, "raise its max_connections", lambda: rowq.connect(small.theirs), within=5)
        with rowq.connect(small.theirs) as broker:
            broker.send("q", "now there is room")

    def test_an_open_broker_waits_for_one_that_is_given_back(self, small: Small) -> None:
        with rowq.connect(small.theirs) as broker:
            broker.send_many("walked", range(3))
        with rowq.connect(small.theirs, upkeep=False) as broker, ExitStack() as held:
            walk = broker.walk("walked")
            next(walk)  # it keeps the connection that the broker has
            _take_all(small.theirs, held)
            sending = Background(lambda: broker.send("q", "x"))
            sending.join(0.5)
            assert sending.is_running
            held.close()
            sending.result(within=5)
            assert len(list(walk)) == 2


@dataclass
class Small:
    """A database on a server that takes few connections."""

    ours: str
    """For an administrator, to whom the last ones are reserved."""
    theirs: str


@pytest.fixture(scope="session")
def smalls() -> Iterator[dict[str, Small]]:
    with ExitStack() as servers:
        yield _Smalls(servers)


class _Smalls(dict[str, Small]):
    def __init__(self, servers: ExitStack) -> None:
        super().__init__()
        self._servers = servers

    def __missing__(self, kind: str) -> Small:
        server: OurServer = own_postgresql(max_connections=8) if kind == "postgresql" else own_mariadb(max_connections=10)
        self._servers.enter_context(server)
        server.create_database("jobs")
        ours = server.url("jobs")
        rowq.migrate(ours)
        somebody = Somebody(server, kind)
        somebody.may_do_everything(ours, "jobs")
        self[kind] = Small(ours, altered(ours, user=somebody.in_url))
        return self[kind]


@pytest.fixture
def small(smalls: dict[str, Small], kind: str) -> Small:
    return smalls[kind]


def _take_all(url: str, held: ExitStack) -> None:
    with suppress(psycopg.OperationalError, pymysql.err.OperationalError):
        while True:
            held.enter_context(closing(connection_to(url)))
