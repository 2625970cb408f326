"""Databases that do not let us in, or let us in and refuse the work: each with its own error, which says what to do."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

import rowq
from rowq import RowqError
from tests.rivals.conftest import with_option
from tests.support.asking import ask
from tests.support.servers import MariadbServer, OwnServer, PostgresqlServer, own_postgresql
from tests.support.tables import faults_of

PASSWORD = "sesame"  # noqa: S105  # of a server that lives as long as the tests
CLOSED_PORT = 1


def by_tcp(server: OwnServer, url: str) -> str:
    """The same database with a password asked for; a socket would let anybody in."""
    assert isinstance(server, PostgresqlServer | MariadbServer)
    return server.tcp_url(urlsplit(url).path[1:])


def changed(url: str, **parts: str | int) -> str:
    """Another user, password, host, port or database."""
    given = urlsplit(url)
    own = {"user": given.username, "password": given.password, "host": given.hostname, "port": given.port, "database": given.path[1:]}
    said = own | parts
    there = f"{said['user']}:{said['password']}@{said['host']}:{said['port']}"
    return urlunsplit((given.scheme, there, f"/{said['database']}", given.query, ""))


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"password": "wrong"}, "password"),
        ({"user": "nobody_we_know"}, "user|password"),
        ({"host": "host.invalid"}, "are host and port right"),
        ({"port": CLOSED_PORT}, "are host and port right"),
        ({"database": "nowhere"}, "create it first"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_address_is_unavailable_at_once_and_says_what_is_wrong(
    server: OwnServer, url: str, wrong: dict[str, str | int], advice: str
) -> None:
    there = by_tcp(server, url)
    rowq.connect(there, maintenance=False).close()
    with pytest.raises(rowq.StoreUnavailable, match=advice) as caught:
        rowq.connect(changed(there, **wrong), timeout=20)
    assert caught.value.code == "store_unavailable"
    assert "secret" not in str(caught.value), "the password is nobody's business"


class Guest:
    """A user of our making, without any rights but to connect."""

    def __init__(self, server: OwnServer, home: str) -> None:
        self.name = f"guest_{secrets.token_hex(4)}"
        self._home = home
        self.is_of_postgresql = isinstance(server, PostgresqlServer)
        if self.is_of_postgresql:
            ask(home, f"CREATE ROLE {self.name} LOGIN PASSWORD '{PASSWORD}'")
        else:
            ask(home, f"CREATE USER '{self.name}'@'%' IDENTIFIED BY '{PASSWORD}'")

    def may(self, url: str, *, write: bool) -> None:
        """Read the tables, or write them as well."""
        rights = "SELECT, INSERT, UPDATE, DELETE" if write else "SELECT"
        database = urlsplit(url).path[1:]
        if not self.is_of_postgresql:
            ask(url, f"GRANT {rights} ON `{database}`.* TO '{self.name}'@'%'")
            return
        ask(url, f"GRANT USAGE ON SCHEMA rowq TO {self.name}", f"GRANT {rights} ON ALL TABLES IN SCHEMA rowq TO {self.name}")
        if write:
            ask(url, f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA rowq TO {self.name}")

    def leave(self, url: str) -> None:
        if self.is_of_postgresql:
            ask(url, f"DROP OWNED BY {self.name}")
            ask(self._home, f"DROP ROLE {self.name}")
        else:
            ask(self._home, f"DROP USER '{self.name}'@'%'")


@pytest.fixture
def guest(server: OwnServer, url: str) -> Iterator[Guest]:
    guest = Guest(server, url)
    yield guest
    guest.leave(url)


@pytest.fixture
def guest_url(server: OwnServer, url: str, guest: Guest) -> str:
    return changed(by_tcp(server, url), user=guest.name, password=PASSWORD)


def refused(call: Callable[[], object]) -> RowqError:
    with pytest.raises(RowqError) as caught:
        call()
    return caught.value


def test_who_may_not_make_tables_is_told_to_let_an_owner_do_it(postgresql: PostgresqlServer, url: str, guest_url: str) -> None:
    error = refused(lambda: rowq.connect(with_option(guest_url, "schema=elsewhere")))
    assert error.code == "store_unavailable"
    assert "rowq migrate" in str(error)


def test_on_mariadb_who_may_not_even_see_the_database_is_told_so(mariadb: MariadbServer) -> None:
    name = f"closed_{secrets.token_hex(4)}"
    mariadb.create_database(name)
    guest = Guest(mariadb, mariadb.url(""))
    try:
        error = refused(lambda: rowq.connect(changed(mariadb.tcp_url(name), user=guest.name, password=PASSWORD)))
        assert error.code == "store_unavailable"
        assert "rowq migrate" in str(error)
    finally:
        guest.leave(mariadb.url(""))
        mariadb.drop_database(name)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_who_may_only_read_looks_around_and_writes_nothing(url: str, guest: Guest, guest_url: str) -> None:
    guest.may(url, write=False)
    with rowq.connect(url) as owner:
        owner.send("q", 1)
        with rowq.connect(guest_url, maintenance=False) as broker:
            assert broker.stats("q").ready == 1
            for call in (lambda: broker.send("q", 2), lambda: broker.receive("q"), lambda: broker.purge("q")):
                assert refused(call).code == "store_unavailable"
        assert [message.payload for message in owner.walk("q")] == [1]
    assert faults_of(url) == {}


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_who_may_read_and_write_rows_needs_nothing_else(url: str, guest: Guest, guest_url: str) -> None:
    guest.may(url, write=True)
    with rowq.connect(guest_url) as broker:
        broker.send("q", 1, key="k", group="g", id="order-7")
        (delivery,) = broker.receive("q")
        broker.nack(delivery, delay=0)
        broker.ack(broker.receive("q", wait=30)[0])
        assert broker.maintain()
    assert faults_of(url) == {}


def test_a_database_that_is_set_to_read_only_says_so(url: str, guest: Guest, guest_url: str) -> None:
    guest.may(url, write=True)
    ask(url, f"ALTER ROLE {guest.name} SET default_transaction_read_only = on")
    with rowq.connect(url) as owner:
        owner.send("q", 1)
        with suppress(rowq.StoreReadOnly), rowq.connect(guest_url, maintenance=False) as broker:
            assert broker.stats("q").ready == 1
            assert refused(lambda: broker.send("q", 2)).code == "store_read_only"
        ask(url, f"ALTER ROLE {guest.name} RESET default_transaction_read_only")
        with rowq.connect(guest_url, maintenance=False) as broker:
            broker.send("q", 2)
        assert owner.stats("q").ready == 2


@pytest.mark.parametrize("kind", ["mariadb"])
def test_a_mariadb_that_is_set_to_read_only_says_so_and_goes_on_when_it_is_over(url: str, guest: Guest, guest_url: str) -> None:
    guest.may(url, write=True)
    with rowq.connect(guest_url, maintenance=False) as broker:
        broker.send("q", 1)
        ask(url, "SET GLOBAL read_only = ON")
        try:
            assert broker.stats("q").ready == 1
            assert refused(lambda: broker.send("q", 2)).code == "store_read_only"
        finally:
            ask(url, "SET GLOBAL read_only = OFF")
        broker.send("q", 2)
        assert broker.stats("q").ready == 2


class Standby(PostgresqlServer):
    """A server that follows a primary which is not there: it can be read, and never written."""

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.home).close()
            return True
        return False


def test_a_standby_is_refused_with_the_advice_to_ask_the_primary(tmp_path: Path) -> None:
    with own_postgresql(tmp_path) as primary:
        primary.create_database("shop")
        with rowq.connect(primary.url("shop")) as broker:
            broker.send("q", 1)
        primary.stop()
        (primary.data / "standby.signal").touch()
        standby = Standby.join(primary.address())
        standby.start()
        error = refused(lambda: rowq.connect(primary.url("shop")))
        assert error.code in ("store_read_only", "store_unavailable")
        assert "primary" in str(error)


def take_all_connections(url: str) -> list[psycopg.Connection]:
    taken = []
    with suppress(psycopg.OperationalError):
        while True:
            taken.append(psycopg.connect(url))
    return taken


def test_a_server_without_a_free_connection_is_busy_and_serves_when_one_is_free(tmp_path: Path) -> None:
    with own_postgresql(tmp_path, max_connections=12, superuser_reserved_connections=3) as server:
        server.create_database("shop")
        home = server.url("shop")
        rowq.migrate(home)
        guest = Guest(server, home)
        guest.may(home, write=True)
        url = changed(server.tcp_url("shop"), user=guest.name, password=PASSWORD)
        with rowq.connect(url, maintenance=False, timeout=1) as broker:
            broker.send("q", 1)
            others = take_all_connections(url)
            assert refused(lambda: rowq.connect(url)).code == "store_busy"
            assert broker.send("q", 2), "it has a connection of its own"
            ask(
                home, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{guest.name}' AND application_name = 'rowq'"
            )
            others += take_all_connections(url)
            assert refused(lambda: broker.send("q", 3)).code == "store_busy"
            for other in others:
                other.close()
            assert broker.send("q", 4)
            assert [message.payload for message in broker.walk("q")] == [1, 2, 4]
