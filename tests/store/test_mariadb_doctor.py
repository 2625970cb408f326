"""What the doctor says of MariaDB: nothing of a sound one, and of each ill what it is and what to do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from urllib.parse import urlsplit, urlunsplit

import pytest

import rowq
from rowq import Broker, Finding
from rowq.store import migrations
from rowq.store.dialect import Row
from rowq.store.mariadb import doctor
from rowq.store.mariadb.doctor import examine
from tests.support.database import run
from tests.support.patience import eventually
from tests.support.servers import MariadbServer
from tests.support.servers.mariadb import connected
from tests.support.servers.server import Setting

NAME = "examined"


class Sound(MariadbServer):
    """As it comes out of the box, with a binary log as a careful user would have it."""

    tuned: ClassVar[dict[str, Setting]] = {"log_bin": "log", "binlog_format": "ROW", "sync_binlog": 1, "max_connections": 40}


@pytest.fixture(scope="module")
def server() -> Iterator[Sound]:
    with Sound.begin(None, {}) as server:
        server.create_database(NAME)
        rowq.migrate(server.url(NAME))
        yield server


@pytest.fixture
def broker(server: Sound) -> Iterator[Broker]:
    with rowq.connect(server.url(NAME), maintenance=False) as broker:
        yield broker


@pytest.fixture
def app(server: Sound) -> Iterator[Any]:
    connection = connected(server.url(NAME))
    yield connection
    connection.close()


def findings(broker: Broker) -> dict[str, Finding]:
    return {finding.check: finding for finding in broker.doctor()}


def ill(broker: Broker) -> set[str]:
    """InnoDB shows transactions as they were, unless nobody has looked for a tenth of a second."""
    threading.Event().wait(0.15)
    return {finding.check for finding in broker.doctor() if not finding.ok}


@contextmanager
def setting(server: Sound, name: str, value: str) -> Iterator[None]:
    with connected(server.url("")) as connection:
        before = run(connection, f"SELECT @@global.{name}").fetchone()[0]
        run(connection, f"SET GLOBAL {name} = {value}")
        try:
            yield
        finally:
            run(connection, f"SET GLOBAL {name} = '{before}'" if isinstance(before, str) else f"SET GLOBAL {name} = {before}")


def test_a_sound_server_has_nothing_wrong(broker: Broker) -> None:
    found = findings(broker)
    assert [finding for finding in found.values() if not finding.ok] == []
    assert found["MariaDB version"].detail.startswith("1")
    assert found["tables"].detail == f"version {migrations.VERSION}"
    assert set(found) == {
        *("MariaDB version", "writable", "tables", "durability", "crash safety", "binary log", "isolation", "packet size"),
        *("connections", "oldest snapshot", "locks", "deleted rows", "clock"),
    }


ILLS = {
    "durability": ("innodb_flush_log_at_trx_commit", "2", "set it to 1"),
    "binary log": ("sync_binlog", "0", "set sync_binlog = 1"),
    "writable": ("read_only", "ON", "primary"),
    "packet size": ("max_allowed_packet", "524288", "raise max_allowed_packet"),
}


@pytest.mark.parametrize("check", ILLS)
def test_a_setting_that_hurts_is_found(server: Sound, broker: Broker, check: str) -> None:
    name, value, advice = ILLS[check]
    with setting(server, name, value):
        found = findings(broker)
    assert not found[check].ok
    assert advice in (found[check].advice or "")
    assert findings(broker)[check].ok


def test_a_log_of_statements_is_found(server: Sound, broker: Broker) -> None:
    with setting(server, "binlog_format", "STATEMENT"):
        assert "binlog_format = ROW" in (findings(broker)["binary log"].advice or "")


def test_a_log_of_statements_is_an_error_that_says_what_to_do(server: Sound) -> None:
    with (
        setting(server, "binlog_format", "STATEMENT"),
        rowq.connect(server.url(NAME), maintenance=False) as broker,
        pytest.raises(rowq.StoreUnavailable, match="binlog_format = ROW"),
    ):
        broker.send("q", "x")


def test_a_queue_whose_payloads_may_not_fit_is_found(broker: Broker) -> None:
    broker.configure("large", max_payload_bytes=200 << 20)
    try:
        assert "209,715,200" in (findings(broker)["packet size"].advice or "")
    finally:
        broker.delete_queue("large")


def test_an_application_that_reads_with_locks_is_found(server: Sound, broker: Broker) -> None:
    with setting(server, "tx_isolation", "'SERIALIZABLE'"):
        assert "isolation" in ill(broker)


def test_whoever_holds_a_snapshot_is_named(broker: Broker, app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_LONG", 1)
    run(app, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    id = run(app, "SELECT CONNECTION_ID()").fetchone()[0]
    eventually(lambda: "oldest snapshot" in ill(broker))
    found = findings(broker)["oldest snapshot"]
    assert f"connection {id} of rowq@" in found.detail
    assert f"KILL {id}" in (found.advice or "")
    app.rollback()
    eventually(lambda: not ill(broker))


def test_whoever_holds_locks_is_named(broker: Broker, app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_LONG_LOCKED", 1)
    broker.send("q", "x")
    run(app, "START TRANSACTION")
    run(app, "SELECT * FROM rowq_ready FOR UPDATE").fetchall()
    eventually(lambda: ill(broker) == {"locks"})
    assert "rows locked" in findings(broker)["locks"].detail
    app.rollback()


def test_deleted_rows_that_pile_up_are_found(broker: Broker, app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_MANY_VERSIONS", 20)
    run(app, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    run(app, "SELECT * FROM rowq_ready").fetchall()
    for number in range(30):
        broker.send("q", number)
        broker.ack_many(broker.receive("q", max=10))
    eventually(lambda: "deleted rows" in ill(broker))
    app.rollback()


def test_tables_that_are_behind_are_found(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "VERSION", migrations.VERSION + 1)
    assert findings(broker)["tables"].advice == "run `rowq migrate`"


def test_a_server_that_is_nearly_full_is_found(server: Sound, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_FULL", 0.01)
    assert "connections" in ill(broker)


def test_what_a_user_may_not_see_is_said_politely(server: Sound) -> None:
    with connected(server.url("")) as connection:
        run(connection, "CREATE USER IF NOT EXISTS modest@'%' IDENTIFIED BY 'x'")
        run(connection, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {NAME}.* TO modest@'%'")
    parts = urlsplit(server.url(NAME))
    url = urlunsplit(parts._replace(netloc=f"modest:x@127.0.0.1:{server.port}"))
    with rowq.connect(url, maintenance=False) as broker:
        found = findings(broker)
        broker.send("q", "and goes on")
    assert [finding for finding in found.values() if not finding.ok] == []
    assert "GRANT PROCESS" in (found["oldest snapshot"].advice or "")
    assert "GRANT PROCESS" in (found["locks"].advice or "")


class Told:
    """A server that cannot be had here: MySQL, or one that was started with other settings."""

    def __init__(self, broker: Broker, release: str, **settings: str) -> None:
        self._dialect: Any = broker._engine.dialect
        self._release = release
        self._settings = settings

    def rows(self, query: str, /, **values: Any) -> list[Row]:
        if query == "read_release":
            return [(self._release,)]
        with self._dialect.asking() as session:
            rows: list[Row] = session.rows(query, **values)
        if query == "read_server_settings":
            return list({**dict(rows), **self._settings}.items())
        return [row for row in rows if row[0] != "Innodb_history_list_length"] if query == "read_server_status" else rows

    def findings(self) -> dict[str, Finding]:
        return {finding.check: finding for finding in examine(self)}  # type: ignore[arg-type]


def test_mysql_is_examined_alike(broker: Broker) -> None:
    """It counts deleted rows elsewhere."""
    found = Told(broker, "8.4.2", transaction_isolation="READ-COMMITTED").findings()
    assert [finding for finding in found.values() if not finding.ok] == []
    assert found["MySQL version"].detail == "8.4.2"
    assert "to clear away" in found["deleted rows"].detail


def test_an_old_release_is_found(broker: Broker) -> None:
    assert not Told(broker, "5.7.44").findings()["MySQL version"].ok
    assert not Told(broker, "10.5.1-MariaDB").findings()["MariaDB version"].ok


@pytest.mark.parametrize("value", ["OFF", "0", "DETECT_ONLY"])
def test_pages_that_a_power_cut_would_destroy_are_found(broker: Broker, value: str) -> None:
    assert not Told(broker, "8.4.2", innodb_doublewrite=value).findings()["crash safety"].ok
