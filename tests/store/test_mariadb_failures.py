"""A MariaDB that refuses, breaks off or goes away: a clear error, or a recovery that nobody notices."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pymysql
import pytest

import rowq
from rowq import Broker, InvalidArgument, OutcomeUnknown, SchemaMismatch, StoreBusy, StoreFull, StoreReadOnly, StoreUnavailable
from rowq.store.mariadb.dialect import Mariadb
from rowq.store.mariadb.doctor import refused_release
from rowq.store.mariadb.errors import translate
from tests.support.background import Background
from tests.support.database import run
from tests.support.life import depths, drain, take
from tests.support.patience import eventually
from tests.support.servers import MariadbServer, own_mariadb
from tests.support.servers.mariadb import connected, cut_off
from tests.support.way import CuttableWay

CERTIFICATE = Path(__file__).parents[1] / "support" / "localhost.pem"
_numbers = count(1)


@pytest.fixture(scope="module")
def certificate() -> Iterator[Path]:
    """Where the server's user can read it."""
    folder = Path(tempfile.mkdtemp(prefix="rowq-certificate-"))
    folder.chmod(0o755)
    copy = folder / "localhost.pem"
    shutil.copyfile(CERTIFICATE, copy)
    copy.chmod(0o644)
    yield copy
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(certificate: Path) -> Iterator[MariadbServer]:
    with own_mariadb(None, ssl_cert=str(certificate), ssl_key=str(certificate)) as server:
        yield server


@pytest.fixture
def name(server: MariadbServer) -> Iterator[str]:
    name = f"failing_{next(_numbers)}"
    server.create_database(name)
    yield name
    server.drop_database(name)


@pytest.fixture
def url(server: MariadbServer, name: str) -> str:
    rowq.migrate(server.url(name))
    return server.url(name)


@pytest.fixture
def broker(url: str) -> Iterator[Broker]:
    with rowq.connect(url, maintenance=False, timeout=10) as broker:
        yield broker


@contextmanager
def user(server: MariadbServer, *grants: str) -> Iterator[str]:
    """A user with no other rights."""
    with connected(server.url("")) as connection:
        run(connection, "CREATE USER somebody@'%' IDENTIFIED BY 'söcret'")
        for grant in grants:
            run(connection, f"GRANT {grant} TO somebody@'%'")
        try:
            yield "somebody:s%C3%B6cret"
        finally:
            run(connection, "DROP USER somebody@'%'")


def altered(url: str, *, user: str | None = None, port: int | None = None, query: str | None = None) -> str:
    parts = urlsplit(url)
    who, _, where = parts.netloc.rpartition("@")
    host, _, usual = where.partition(":")
    return urlunsplit(parts._replace(netloc=f"{user or who}@{host}:{port or usual}", query=parts.query if query is None else query))


def say(server: MariadbServer, statement: str) -> None:
    with connected(server.url("")) as connection:
        run(connection, statement)


def dialect_of(broker: Broker) -> Mariadb:
    dialect = broker._engine.dialect
    assert isinstance(dialect, Mariadb)
    return dialect


class TestARefusal:
    def test_of_a_wrong_password(self, url: str) -> None:
        with pytest.raises(StoreUnavailable, match="user or password"):
            rowq.connect(altered(url, user="rowq:wrong"))

    def test_of_an_unknown_database(self, server: MariadbServer) -> None:
        with pytest.raises(StoreUnavailable, match="create it first"):
            rowq.connect(server.url("nowhere"))

    def test_of_a_port_where_nobody_listens_comes_at_once(self, server: MariadbServer, url: str) -> None:
        with pytest.raises(StoreUnavailable, match="is it running"):
            Background(lambda: rowq.connect(altered(url, port=1, query=""))).result(within=20)

    def test_of_a_socket_where_nobody_listens(self, url: str) -> None:
        with pytest.raises(StoreUnavailable, match="is it running"):
            rowq.connect(altered(url, query="unix_socket=/nowhere/socket"))

    @pytest.mark.parametrize(
        "bad",
        ["mariadb://localhost", "mariadb://localhost/", "mysql://localhost/x?ssl_disabled=perhaps", "mariadb://localhost/x?colour=red"],
    )
    def test_of_a_url_that_makes_no_sense(self, bad: str) -> None:
        with pytest.raises(InvalidArgument):
            rowq.connect(bad)

    def test_of_a_user_who_may_not_make_tables(self, server: MariadbServer, name: str) -> None:
        with user(server, f"SELECT, INSERT, UPDATE, DELETE ON {name}.*") as somebody, pytest.raises(StoreUnavailable, match="rights"):
            rowq.migrate(altered(server.url(name), user=somebody))

    def test_of_a_user_who_may_not_write(self, server: MariadbServer, name: str, url: str) -> None:
        with (
            user(server, f"SELECT ON {name}.*") as somebody,
            rowq.connect(altered(url, user=somebody), maintenance=False) as broker,
            pytest.raises(StoreUnavailable, match="rights"),
        ):
            broker.send("q", "x")

    def test_of_a_server_that_may_only_be_read(self, server: MariadbServer, name: str, url: str) -> None:
        with user(server, f"ALL ON {name}.*") as somebody, rowq.connect(altered(url, user=somebody), maintenance=False) as broker:
            say(server, "SET GLOBAL read_only = ON")
            try:
                with pytest.raises(StoreReadOnly, match="primary"):
                    broker.send("q", "x")
                assert broker.queues() == []
            finally:
                say(server, "SET GLOBAL read_only = OFF")
            broker.send("q", "x")

    def test_for_lack_of_a_table(self, server: MariadbServer, name: str, broker: Broker) -> None:
        say(server, f"DROP TABLE {name}.rowq_ready")
        with pytest.raises(SchemaMismatch, match="rowq migrate"):
            broker.send("q", "x")

    def test_for_lack_of_connections(self, server: MariadbServer, name: str, url: str) -> None:
        with user(server, f"ALL ON {name}.*", "USAGE ON *.*") as somebody:
            say(server, "ALTER USER somebody@'%' WITH MAX_USER_CONNECTIONS 1")
            with (
                rowq.connect(altered(url, user=somebody), maintenance=False, timeout=0.5) as broker,
                pytest.raises(StoreBusy, match="max_user_connections"),
            ):
                broker.send("q", "x")

    @pytest.mark.parametrize(
        "text", ['Got error 28 "No space left on device" from storage engine InnoDB', "Error writing file (Errcode: 28)"]
    )
    def test_by_a_full_disk(self, text: str) -> None:
        for error in (pymysql.OperationalError(1030, text), pymysql.OperationalError(1114, "The table 'rowq_messages' is full")):
            assert isinstance(translate(error, "here"), StoreFull)

    @pytest.mark.parametrize(
        ("release", "is_good"),
        [
            ("10.6.0-MariaDB", True),
            ("11.8.2-MariaDB-ubu2404", True),
            ("10.5.23-MariaDB", False),
            ("8.0.36", True),
            ("9.1.0", True),
            ("5.7.44", False),
        ],
    )
    def test_of_a_release_that_is_too_old(self, release: str, is_good: bool) -> None:
        assert (refused_release(release) is None) is is_good


class TestABrokenConnection:
    def test_that_broke_while_it_was_idle_is_replaced(self, server: MariadbServer, name: str, broker: Broker) -> None:
        broker.send("q", 1)
        with connected(server.url("")) as connection:
            cut_off(connection.cursor(), name)
        eventually(lambda: not any(one.is_usable for one in dialect_of(broker)._writers._idle))
        broker.send("q", 2)
        assert broker.stats("q").ready == 2
        assert drain(broker) == [1, 2]

    def test_that_breaks_before_the_commit_is_tried_again(self, server: MariadbServer, name: str, url: str) -> None:
        with (
            CuttableWay(server.port) as way,
            rowq.connect(altered(url, port=way.port, query="ssl_disabled=1"), maintenance=False) as broker,
        ):
            broker.send_many("q", range(3))
            way.cut_at = b"FOR UPDATE SKIP LOCKED"
            assert [delivery.payload for delivery in broker.receive("q", max=3)] == [0, 1, 2]
            assert way.cuts == 1

    @pytest.mark.parametrize("is_written", [True, False])
    def test_that_breaks_with_the_commit_leaves_it_open_what_became_of_it(self, server: MariadbServer, url: str, is_written: bool) -> None:
        with (
            CuttableWay(server.port) as way,
            rowq.connect(altered(url, port=way.port, query="ssl_disabled=1"), maintenance=False) as broker,
        ):
            broker.send("q", "before")
            way.cut_at, way.forwards = b"COMMIT", is_written
            with pytest.raises(OutcomeUnknown):
                broker.send("q", "in doubt")
            assert way.cuts == 1
            assert drain(broker) == (["before", "in doubt"] if is_written else ["before"])

    def test_that_breaks_with_a_commit_of_nothing_is_tried_again(self, server: MariadbServer, url: str) -> None:
        with (
            CuttableWay(server.port) as way,
            rowq.connect(altered(url, port=way.port, query="ssl_disabled=1"), maintenance=False) as broker,
        ):
            assert broker.receive("q") == []
            way.cut_at = b"COMMIT"
            assert broker.receive("q") == []
            assert way.cuts == 1

    def test_that_breaks_while_seqs_are_drawn_is_tried_again(self, server: MariadbServer, url: str) -> None:
        with (
            CuttableWay(server.port) as way,
            rowq.connect(altered(url, port=way.port, query="ssl_disabled=1"), maintenance=False) as broker,
        ):
            way.cut_at = b"LAST_INSERT_ID"
            broker.send("q", "x")
            assert way.cuts == 1
            assert drain(broker) == ["x"]

    def test_of_an_application_is_an_error_of_ours(self, server: MariadbServer, url: str, broker: Broker) -> None:
        app = connected(url, autocommit=False)
        id = run(app, "SELECT CONNECTION_ID()").fetchone()[0]
        say(server, f"KILL {id}")
        with pytest.raises(StoreBusy, match="broke"):
            broker.within(app).send("q", "x")
        assert depths(broker) == {}
        app.close()


def test_whoever_is_cut_off_goes_on_when_the_server_is_back(server: MariadbServer, broker: Broker) -> None:
    broker.send("q", "before")
    server.stop()
    sending = Background(lambda: broker.send("q", "meanwhile"))
    server.start()
    sending.result()
    delivery = take(broker)
    server.restart()
    broker.ack(delivery)
    assert drain(broker) == ["meanwhile"]


def test_a_server_that_stays_away_is_an_error_in_time(server: MariadbServer, url: str) -> None:
    with rowq.connect(url, maintenance=False, timeout=1) as broker:
        broker.send("q", "x")
        server.stop()
        try:
            with pytest.raises(StoreUnavailable, match="is it running"):
                Background(lambda: broker.send("q", "y")).result()
        finally:
            server.start()
        assert drain(broker) == ["x"]


class TestEncryption:
    def cipher(self, broker: Broker) -> str:
        with dialect_of(broker).asking() as session:
            return str(session._ask(b"SHOW SESSION STATUS LIKE 'Ssl_cipher'").rows[0][1])

    def test_is_used_where_the_server_has_it(self, url: str) -> None:
        with rowq.connect(altered(url, query=""), maintenance=False) as broker:
            assert self.cipher(broker)
            broker.send_many("q", [b"x" * 100_000 for _ in range(20)])
            assert len(drain(broker)) == 20

    def test_can_be_switched_off(self, url: str) -> None:
        with rowq.connect(altered(url, query="ssl_disabled=true"), maintenance=False) as broker:
            assert self.cipher(broker) == ""

    def test_is_not_needed_on_a_socket(self, broker: Broker) -> None:
        assert self.cipher(broker) == ""

    def test_is_verified_by_a_certificate(self, url: str, certificate: Path) -> None:
        with rowq.connect(altered(url, query=f"ssl_ca={certificate}&ssl_verify_identity=true"), maintenance=False) as broker:
            assert self.cipher(broker)

    def test_by_a_stranger_is_refused(self, url: str) -> None:
        """Nobody whom this machine trusts has signed the server's certificate."""
        with pytest.raises(StoreUnavailable, match="certificate"):
            rowq.connect(altered(url, query="ssl_verify_cert=true"))
