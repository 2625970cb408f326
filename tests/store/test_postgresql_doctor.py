"""What the doctor says of PostgreSQL: nothing of a sound one, and of each ill what it is and what to do; on a real server every time."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, ClassVar
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import rowq
from rowq import Broker, Finding
from rowq.store import migrations
from rowq.store.postgresql import activity, doctor
from tests.support.patience import eventually
from tests.support.servers import PostgresqlServer, own_pgbouncer
from tests.support.servers.server import Setting

_numbers = count(1)


class Sound(PostgresqlServer):
    """As it comes out of the box, but for its size: what is given on the command line could not be changed by a test."""

    tuned: ClassVar[dict[str, Setting]] = {
        "max_connections": 40,
        "max_prepared_transactions": 5,
        "shared_buffers": "64MB",
        "dynamic_shared_memory_type": "mmap",
        "timezone": "America/St_Johns",
    }


class Older(Sound):
    version = 16


class Standby(Sound):
    """Reads along with another server."""

    def _answers(self) -> bool:
        return "ready to accept read-only connections" in self.said()


@pytest.fixture(scope="module")
def server() -> Iterator[Sound]:
    with Sound.begin(None, {"max_notify_queue_pages": 64}) as server:
        yield server


@pytest.fixture
def url(server: Sound) -> Iterator[str]:
    with database(server) as url:
        yield url


@contextmanager
def database(server: PostgresqlServer, more: str = "") -> Iterator[str]:
    """One with tables that nobody else uses."""
    name = f"examined_{next(_numbers)}"
    with psycopg.connect(server.home, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} {more}")
    rowq.migrate(server.url(name))
    yield server.url(name)
    server.drop_database(name)


def examined(url: str) -> dict[str, Finding]:
    """As the command line opens it."""
    with rowq.connect(url, migrate=False, maintenance=False) as broker:
        return findings(broker)


def findings(broker: Broker) -> dict[str, Finding]:
    found = broker.doctor()
    assert all(finding.ok or finding.advice for finding in found)
    return {finding.check: finding for finding in found}


def ills(url: str) -> list[str]:
    return [name for name, finding in examined(url).items() if not finding.ok]


def name_of(url: str) -> str:
    return urlsplit(url).path[1:]


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def setting(url: str, name: str, value: str) -> None:
    """For whoever connects to the database from now on."""
    run(url, f"ALTER DATABASE {name_of(url)} SET {name} = {value}")


@contextmanager
def system(server: Sound, name: str, value: str) -> Iterator[None]:
    run(server.home, f"ALTER SYSTEM SET {name} = {value}", "SELECT pg_reload_conf()")
    try:
        yield
    finally:
        run(server.home, f"ALTER SYSTEM RESET {name}", "SELECT pg_reload_conf()")


@pytest.fixture
def stranger(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody else's connection to the same database."""
    with psycopg.connect(url, application_name="reports") as connection:
        yield connection


@pytest.fixture
def role(server: Sound) -> str:
    """A user who owns nothing."""
    name = f"clerk_{next(_numbers)}"
    run(server.home, f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
    return name


def dressed(server: Sound, url: str, role: str) -> str:
    """The same database as another user."""
    return server.url(name_of(url)).replace("postgres:secret@", f"{role}:secret@")


@pytest.mark.parametrize("kind", [Sound, Older], ids=["18", "16"])
def test_a_fresh_database_that_idles_is_well(kind: type[Sound]) -> None:
    with kind.begin(None, {}) as server, database(server) as url:
        found = examined(url)
        assert {name: finding for name, finding in found.items() if not finding.ok or finding.advice} == {}
        assert found["PostgreSQL version"].detail.startswith(str(kind.version))


def test_a_database_at_work_is_well(url: str) -> None:
    with rowq.connect(url) as broker:
        broker.send_many("jobs", range(3_000))
        broker.send_many("later", range(100), delay=60)
        while deliveries := broker.receive("jobs", max=500):
            broker.ack_many(deliveries)
        broker.receive("later.dlq", wait=0.1)
        assert [name for name, finding in findings(broker).items() if not finding.ok] == []


def test_versions_that_were_never_tried_are_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_NEWEST_KNOWN", 15)
    newer = examined(url)["PostgreSQL version"]
    assert newer.ok and "newer" in newer.detail
    monkeypatch.setattr(doctor, "_OLDEST_GOOD", 19)
    assert not examined(url)["PostgreSQL version"].ok


def test_tables_of_another_release_are_told(url: str) -> None:
    with rowq.connect(url, maintenance=False) as broker:
        run(url, f"UPDATE rowq.rowq_migrations SET version = {migrations.VERSION - 1}")
        behind = findings(broker)["tables"]
        assert not behind.ok and "rowq migrate" in str(behind.advice)
        run(url, f"UPDATE rowq.rowq_migrations SET version = {migrations.VERSION + 1}")
        ahead = findings(broker)["tables"]
        assert not ahead.ok and "newer" in ahead.detail and "upgrade" in str(ahead.advice)


def test_tables_that_are_gone_are_told(url: str) -> None:
    with rowq.connect(url, maintenance=False) as broker:
        run(url, "DROP SCHEMA rowq CASCADE")
        assert {name: finding.detail for name, finding in findings(broker).items() if not finding.ok} == {"tables": "not there"}


def test_another_schema_is_looked_at_by_its_name(url: str) -> None:
    rowq.migrate(f"{url}&schema=Second")
    run(url, 'ALTER TABLE "Second".rowq_ready SET UNLOGGED')
    assert ills(url) == []
    assert ills(f"{url}&schema=Second") == ["crash safety"]


def test_a_standby_is_told() -> None:
    """One that became a standby while we were connected: nobody can connect to one."""
    with Sound.begin(None, {}) as primary, database(primary) as url, rowq.connect(url, maintenance=False) as broker:
        primary.stop()
        (primary.data / "standby.signal").touch()
        Standby(primary.site).start()
        found = findings(broker)
        assert [name for name, finding in found.items() if not finding.ok] == ["writable"]
        assert "primary" in str(found["writable"].advice)
        Standby(primary.site).stop()
        (primary.data / "standby.signal").unlink()
        primary.start()


def test_a_database_that_may_not_be_written_is_told(url: str) -> None:
    setting(url, "default_transaction_read_only", "on")
    assert ills(url) == ["writable"]


def test_an_encoding_without_all_characters_is_told(server: Sound) -> None:
    with database(server, "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0") as url:
        assert ills(url) == ["encoding"]
        assert examined(url)["encoding"].detail == "LATIN1"


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_a_server_that_a_crash_destroys_is_told(server: Sound, url: str, name: str) -> None:
    with system(server, name, "off"):
        eventually(lambda: ills(url) == ["crash safety"])
        assert f"set {name} to on" in str(examined(url)["crash safety"].advice)


def test_commits_that_do_not_wait_for_the_disk_are_told(url: str) -> None:
    setting(url, "synchronous_commit", "off")
    assert ills(url) == ["crash safety"]
    assert "synchronous_commit" in str(examined(url)["crash safety"].advice)
    assert ills(f"{url}&durability=normal") == ["durability"]


def test_a_table_that_a_crash_empties_is_told(url: str) -> None:
    run(url, "ALTER TABLE rowq.rowq_dead SET UNLOGGED")
    found = examined(url)["crash safety"]
    assert not found.ok and "rowq_dead" in found.detail and "SET LOGGED" in str(found.advice)


def test_transactions_that_fail_each_other_are_told(url: str) -> None:
    setting(url, "default_transaction_isolation", "'repeatable read'")
    assert ills(url) == ["isolation"]


@pytest.mark.parametrize("name", ["statement_timeout", "transaction_timeout", "idle_session_timeout"])
def test_time_limits_that_cut_in_are_told(url: str, name: str) -> None:
    setting(url, name, "'5s'")
    found = examined(url)["time limits"]
    assert not found.ok and found.detail == f"{name} 5000 ms"


def test_generous_time_limits_are_well(url: str) -> None:
    setting(url, "statement_timeout", "'10min'")
    setting(url, "idle_session_timeout", "'1h'")
    assert ills(url) == []


def test_a_server_with_few_connections_left_is_told(url: str) -> None:
    crowd = [psycopg.connect(url) for _ in range(30)]
    try:
        assert examined(url)["connections"].ok
        crowd += [psycopg.connect(url) for _ in range(3)]
        found = examined(url)["connections"]
        assert not found.ok and found.detail.endswith("of 37 of the server in use")
    finally:
        for connection in crowd:
            connection.close()


def test_limits_of_a_database_and_of_a_user_are_told(server: Sound, url: str, role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "_PATIENCE", 0.1)
    name = name_of(url)
    own = dressed(server, url, role)
    run(url, f"GRANT USAGE ON SCHEMA rowq TO {role}", f"GRANT SELECT ON ALL TABLES IN SCHEMA rowq TO {role}")
    run(url, f"ALTER DATABASE {name} CONNECTION LIMIT 4")
    with psycopg.connect(url), psycopg.connect(url), psycopg.connect(url):
        found = examined(own)  # once: a connection that was closed may still be counted for a moment
        assert found["connections"].detail == "4 of 4 of the database in use"
        assert found["wake-ups"].detail.startswith("could not be tried: ")
    run(url, f"ALTER DATABASE {name} CONNECTION LIMIT -1", f"ALTER ROLE {role} CONNECTION LIMIT 5")
    with psycopg.connect(own), psycopg.connect(own):
        assert examined(own)["connections"].detail == "3 of 5 of the user in use"


def test_notifications_arrive(url: str) -> None:
    assert examined(url)["wake-ups"] == Finding("wake-ups", True, "notifications arrive")


def test_behind_a_pooler_waiting_means_polling(server: Sound, url: str) -> None:
    with own_pgbouncer(server) as pooler:
        found = examined(pooler.url(name_of(url)))
        assert [name for name, finding in found.items() if not finding.ok] == []
        assert "ten times a second" in found["wake-ups"].detail and "Redis" in str(found["wake-ups"].advice)


def test_behind_a_pooler_by_session_notifications_arrive(server: Sound, url: str) -> None:
    with own_pgbouncer(server, pool_mode="session") as pooler:
        assert examined(pooler.url(name_of(url)))["wake-ups"].detail == "notifications arrive, by a pooler"


def test_a_pooler_with_nothing_to_spare_keeps_nobody_waiting(server: Sound, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "_PATIENCE", 0.1)
    with own_pgbouncer(server, default_pool_size=1) as pooler:
        found = examined(pooler.url(name_of(url)))["wake-ups"]
        assert not found.ok and found.detail == "could not be tried: no connection within 0.2 s"
        eventually(lambda: not any(thread.name == "rowq-doctor" for thread in threading.enumerate()))


def test_a_notification_that_does_not_arrive_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a way that loses them: nobody says the word."""
    spoken = psycopg.Connection.execute

    def forget(self: psycopg.Connection[Any], query: Any, *rest: Any, **more: Any) -> Any:
        return spoken(self, "" if str(query).startswith("NOTIFY") else query, *rest, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", forget)
    monkeypatch.setattr(activity, "_PATIENCE", 0.05)
    assert ills(url) == ["wake-ups"]


def test_a_queue_of_notifications_that_fills_up_is_told(url: str, stranger: psycopg.Connection[Any]) -> None:
    stranger.autocommit = True
    stranger.execute("LISTEN anything")
    stranger.execute("BEGIN")
    with psycopg.connect(url, autocommit=True) as teller:
        for number in range(50):
            teller.execute("SELECT pg_notify('anything', %s)", (f"{number:07000}",))
        found = examined(url)["wake-ups"]
        assert not found.ok and "full" in found.detail
        stranger.execute("COMMIT")
        teller.execute("SELECT pg_notify('anything', 'the last one')")
    eventually(lambda: examined(url)["wake-ups"].ok)


def test_whoever_holds_a_snapshot_is_told(url: str, stranger: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    stranger.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    stranger.execute("SELECT   17\nAS first")
    young = examined(url)["oldest snapshot"]
    assert young.ok and young.detail.endswith("s old")
    monkeypatch.setattr(activity, "_LONG", 0.0)
    old = examined(url)["oldest snapshot"]
    pid = stranger.info.backend_pid
    assert not old.ok
    assert re.fullmatch(rf"pid {pid} \(postgres, reports\) idle in transaction for \d+ s: SELECT 17 AS first", old.detail)
    assert f"pg_terminate_backend({pid})" in str(old.advice)


def test_only_snapshots_that_see_our_tables_count(
    server: Sound, url: str, stranger: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "_LONG", 0.0)
    stranger.execute("SELECT 'read committed: it looks afresh each time'")
    with psycopg.connect(server.home) as elsewhere:
        elsewhere.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        elsewhere.execute("SELECT 'of another database'")
        assert examined(url)["oldest snapshot"].ok
        elsewhere.rollback()
        elsewhere.execute("SELECT pg_current_xact_id()")
        assert not examined(url)["oldest snapshot"].ok


def test_a_user_who_cannot_see_others_is_told_so(server: Sound, url: str, role: str) -> None:
    run(url, f"GRANT USAGE ON SCHEMA rowq TO {role}", f"GRANT SELECT ON ALL TABLES IN SCHEMA rowq TO {role}")
    found = examined(dressed(server, url, role))["oldest snapshot"]
    assert found.ok and "pg_read_all_stats" in str(found.advice)


def test_a_prepared_transaction_that_was_left_behind_is_told(
    url: str, stranger: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger.execute("SELECT pg_current_xact_id()")
    stranger.execute("PREPARE TRANSACTION 'left behind'")
    stranger.autocommit = True
    try:
        assert examined(url)["prepared transactions"].ok
        monkeypatch.setattr(activity, "_LONG", 0.0)
        found = examined(url)["prepared transactions"]
        assert not found.ok and "'left behind' of postgres" in found.detail
        assert "ROLLBACK PREPARED 'left behind'" in str(found.advice)
    finally:
        stranger.execute("ROLLBACK PREPARED 'left behind'")


def test_a_slot_that_keeps_the_log_for_nobody_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(url, "SELECT pg_create_physical_replication_slot('gone', true)")
    try:
        assert examined(url)["replication slots"].ok
        run(url, "CREATE TABLE filler AS SELECT generate_series(1, 10000)")
        monkeypatch.setattr(activity, "_MUCH_LOG", 100_000)
        found = examined(url)["replication slots"]
        assert not found.ok and found.detail.startswith("gone, which is inactive,")
        assert "pg_drop_replication_slot('gone')" in str(found.advice)
    finally:
        run(url, "SELECT pg_drop_replication_slot('gone')")


@pytest.mark.parametrize("slot", ["", "reader"])
def test_a_standby_that_holds_a_snapshot_is_told(server: Sound, url: str, slot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with reading_along(server, slot) as standby, psycopg.connect(standby.url("postgres"), autocommit=True) as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 'a report that takes its time'")
        assert ills(url) == []
        monkeypatch.setattr(activity, "_MANY_TRANSACTIONS", 10)
        run(url, *["SELECT pg_current_xact_id()"] * 20)
        check = "replication slots" if slot else "oldest snapshot"
        eventually(lambda: ills(url) == [check])
        assert "hot_standby_feedback" in str(examined(url)[check].advice)
        reader.execute("COMMIT")
        if slot:
            standby.stop()
            left = eventually(lambda: [found for found in [examined(url)[check]] if "inactive" in found.detail])[0]
            assert "pg_drop_replication_slot('reader')" in str(left.advice)


@contextmanager
def reading_along(server: Sound, slot: str) -> Iterator[Standby]:
    """A standby that tells the server what its readers still see."""

    class Copy(Standby):
        def _install(self) -> None:
            where = make_conninfo(host=str(server.place), port=server.port, user="postgres")
            command = [self._program("pg_basebackup"), "--dbname", where, "--pgdata", str(self.data), "--write-recovery-conf"]
            self.account.run([*command, "--checkpoint=fast", *(["--create-slot", f"--slot={slot}"] if slot else [])])

    settings: dict[str, Setting] = {"hot_standby_feedback": True, "wal_receiver_status_interval": "1s", "max_notify_queue_pages": 64}
    try:
        with Copy.begin(None, settings) as standby:
            yield standby
    finally:
        if slot:
            with psycopg.connect(server.home, autocommit=True) as connection:
                eventually(lambda: connection.execute("SELECT NOT active FROM pg_replication_slots").fetchone() == (True,))
                connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))


def test_whoever_locks_our_tables_is_told_and_not_waited_for(
    url: str, stranger: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger.execute("LOCK TABLE rowq.rowq_ready IN ACCESS EXCLUSIVE MODE")
    assert examined(url)["locks"].ok
    monkeypatch.setattr(activity, "_LONG_LOCK", 0.0)
    with waiting(url, "SELECT * FROM rowq.rowq_ready"):
        found = eventually(lambda: [found for found in [examined(url)["locks"]] if "1 wait for it" in found.detail])[0]
        assert found.detail.startswith(f"pid {stranger.info.backend_pid} (postgres, reports) idle in transaction")
        assert "on rowq_ready" in found.detail
        stranger.rollback()


def test_whoever_has_written_to_our_tables_and_not_committed_is_told(
    url: str, stranger: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "_LONG_LOCK", 0.0)
    with rowq.connect(url, maintenance=False) as broker:
        stranger.execute("SELECT * FROM rowq.rowq_ready")
        assert findings(broker)["locks"].ok
        broker.within(stranger).send("jobs", 1, key="one")
        found = findings(broker)["locks"]
        assert not found.ok and "rowq_waiting_keys" in found.detail and "reports" in found.detail


@contextmanager
def waiting(url: str, statement: str) -> Iterator[None]:
    """Somebody who waits for a lock meanwhile."""
    thread = threading.Thread(target=run, args=(url, statement))
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.parametrize("name", ["autovacuum", "track_counts"])
def test_a_server_where_nobody_clears_up_is_told(server: Sound, url: str, name: str) -> None:
    with system(server, name, "off"):
        eventually(lambda: ills(url) == ["vacuum"])
        assert examined(url)["vacuum"].detail == f"off: {name}"


def test_a_table_that_nobody_clears_up_is_told(url: str) -> None:
    run(url, "ALTER TABLE rowq.rowq_leased SET (autovacuum_enabled = false)")
    assert examined(url)["vacuum"].detail == "off: autovacuum of rowq_leased"


def test_rights_that_are_missing_are_told(server: Sound, url: str, role: str) -> None:
    own = dressed(server, url, role)
    run(url, f"GRANT USAGE ON SCHEMA rowq TO {role}", f"GRANT SELECT ON ALL TABLES IN SCHEMA rowq TO {role}")
    found = examined(own)["rights"]
    assert not found.ok and found.detail.startswith(f"{role} lacks DELETE on rowq_api_keys, INSERT on rowq_api_keys, ")
    run(url, f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA rowq TO {role}")
    assert examined(own)["rights"].detail == f"{role} lacks USAGE on rowq_seq"
    run(url, f"GRANT USAGE ON SEQUENCE rowq.rowq_seq TO {role}")
    assert ills(own) == ["vacuum"]


@pytest.mark.parametrize("grant", ["GRANT MAINTAIN ON ALL TABLES IN SCHEMA rowq TO {}", "GRANT pg_maintain TO {}", "GRANT postgres TO {}"])
def test_whoever_may_vacuum_is_known_by_what_was_granted(server: Sound, url: str, role: str, grant: str) -> None:
    own = dressed(server, url, role)
    run(url, f"GRANT USAGE ON SCHEMA rowq TO {role}", f"GRANT SELECT ON ALL TABLES IN SCHEMA rowq TO {role}")
    assert not examined(own)["vacuum"].ok
    run(url, grant.format(role))
    assert examined(own)["vacuum"].ok
    with psycopg.connect(own, autocommit=True) as connection:
        notices: list[str] = []
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        connection.execute("VACUUM rowq.rowq_ready")
        assert notices == []


def test_dead_rows_that_nobody_clears_are_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_MANY_DEAD_ELSEWHERE", 1_000)
    run(url, "ALTER TABLE rowq.rowq_ready SET (autovacuum_enabled = false)", *leaving(2_000))
    found = heap(url)
    assert found.detail == "rowq_ready: 2,000 beside 0 live ones, never vacuumed"
    assert "are not vacuumed" in str(found.advice)
    run(url, "VACUUM rowq.rowq_ready")
    eventually(lambda: examined(url)["dead rows"].ok)


def test_dead_rows_that_vacuum_may_not_clear_are_told(url: str, stranger: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_MANY_DEAD_ELSEWHERE", 1_000)
    stranger.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    stranger.execute("SELECT 1")
    run(url, *leaving(2_000))
    heap(url)
    run(url, "VACUUM rowq.rowq_ready")
    assert "snapshot" in str(heap(url).advice)


def leaving(rows: int) -> tuple[str, ...]:
    """Statements that leave so many dead rows behind."""
    columns = "(queue, ranking, position, seq, attempts)"
    return (
        f"INSERT INTO rowq.rowq_ready {columns} SELECT 'q', 0, n, n, 0 FROM generate_series(1, {rows}) AS n",
        "DELETE FROM rowq.rowq_ready",
    )


def heap(url: str) -> Finding:
    """What is said of many dead rows; PostgreSQL counts with some delay."""
    return eventually(lambda: [found for found in [examined(url)["dead rows"]] if "2,000" in found.detail and not found.ok])[0]


def test_a_table_that_is_mostly_air_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert examined(url)["size"].detail.endswith(" MB")
    monkeypatch.setattr(doctor, "_LARGE", 100_000)
    run(url, *leaving(5_000))
    found = eventually(lambda: [found for found in [examined(url)["size"]] if not found.ok])[0]
    assert found.detail.startswith("rowq_ready: ") and found.detail.endswith("for 0 rows")
    assert "VACUUM FULL" in str(found.advice)


def test_the_clock_of_the_database_is_compared(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = examined(url)["clock"]
    assert found.ok and float(found.detail.split()[0]) < 5
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert "s ahead of this machine's" in examined(url)["clock"].detail
