"""`rowq peq install`: creates a schema, creates it anew, and refuses what cannot be one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

import rowq
from rowq import InvalidArgument, NameReserved, SchemaMismatch
from rowq.connect import install_peq
from tests.cli.driver import Result, Run
from tests.compat.peq.sql import NOBODY, Sql
from tests.support.database import new_database


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A database without PEQ's schema."""
    return new_database("postgresql", tmp_path).url


@pytest.fixture
def own(bare: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(bare, autocommit=True) as connection:
        yield connection


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("NO_COLOR", "1")
    return Run(monkeypatch)


def installed(run: Run, url: str, name: str) -> Result:
    return run("peq", "install", name, "--url", url)


def test_the_command_makes_a_schema(run: Run, bare: str) -> None:
    result = installed(run, bare, "test01")
    assert (result.exit_code, result.out) == (0, "the procedures of the queue test01 are in the schema test01\n")
    assert run("peq", "install", "test01", "--url", bare, "--json").json == {"schema": "test01", "queue": "test01"}
    sql = Sql(bare)
    sql.enqueue({"n": 1})
    assert sql.dequeue()[1] == {"n": 1}
    sql.close()


def test_the_queue_gets_the_settings_of_peq(bare: str) -> None:
    install_peq(bare, "test01")
    with rowq.connect(bare, maintenance=False) as broker:
        settings = broker.settings("test01")
        assert (settings.lease_ms, settings.max_attempts, settings.keep) == (30_000, 8, "body")
        assert broker.policy("test01").audit


def test_what_somebody_has_set_stays(bare: str) -> None:
    with rowq.connect(bare, maintenance=False) as broker:
        broker.configure("test01", keep="none", backoff=[1, 2], ttl=60)
        install_peq(bare, "test01")
        policy = broker.policy("test01")
        assert (policy.keep, policy.max_attempts, policy.ttl_ms, policy.lease_ms) == ("none", 3, 60_000, 30_000)
        broker.configure("test01", max_attempts=4)
        install_peq(bare, "test01")
        assert broker.policy("test01").max_attempts == 4


def test_a_schema_is_made_anew_with_all_that_is_behind_it(bare: str) -> None:
    install_peq(bare, "test01")
    sql = Sql(bare)
    sql.enqueue(1)
    sql.set("max_retries", 2)
    id, _ = sql.dequeue()
    install_peq(bare, "test01")
    sql.ack(id)
    assert dict(sql("SELECT setting_name, setting_value FROM test01.queue_configuration"))["max_retries"] == "2"
    assert [line[0] for line in sql.audit()] == [1, 2, 3]
    sql.close()


def test_a_schema_of_the_release_before_takes_ids_after_a_migration(bare: str, own: psycopg.Connection) -> None:
    """That of version 6 of the tables named their key in its SQL."""
    install_peq(bare, "test01")
    definition = own.execute("SELECT pg_get_functiondef('test01.enqueue'::regproc)").fetchone()
    assert definition is not None and "ON CONFLICT DO NOTHING" in definition[0]
    own.execute("ALTER TABLE rowq.rowq_own_ids DROP CONSTRAINT rowq_own_ids_pkey, ADD PRIMARY KEY (id)")
    own.execute(definition[0].replace("ON CONFLICT DO NOTHING", "ON CONFLICT (id) DO NOTHING"))
    own.execute("DROP FUNCTION rowq.rowq_draw_run; DROP VIEW rowq.rowq_audit_lines CASCADE; ALTER TABLE rowq.rowq_audit DROP COLUMN seqs")
    own.execute("DELETE FROM rowq.rowq_migrations WHERE version >= 7")
    own.execute("INSERT INTO rowq.rowq_migrations (version, applied_at) VALUES (6, 0)")
    assert rowq.migrate(bare)[0] == 6
    sql, id = Sql(bare), uuid4()
    sql.enqueue(1, message_id=id)
    with pytest.raises(psycopg.errors.UniqueViolation, match="was sent already"):
        sql.enqueue(2, message_id=id)
    with rowq.connect(bare, maintenance=False) as broker:
        broker.send("elsewhere", 3, id=str(id))
        assert broker.get(str(id), queue="test01").payload == 1
    sql.close()


@pytest.mark.parametrize("name", ["Orders", "select", "my-queue.2026", "7up", "a" * 63])
def test_names_that_need_quoting(bare: str, name: str) -> None:
    install_peq(bare, name)
    install_peq(bare, "beside")
    sql = Sql(bare, name)
    sql.enqueue(1)
    id, payload = sql.dequeue()
    assert payload == 1
    sql.nak(id)
    sql(f"CALL {sql.schema}.message_reschedule(%s, -1)", id)
    sql.set("max_retries", 3)
    with rowq.connect(bare, maintenance=False) as broker:
        assert [delivery.payload for delivery in broker.receive(name)] == [1]
        assert broker.policy(name).max_attempts == 4
    sql.close()
    beside = Sql(bare, "beside")
    assert beside.dequeue() == (NOBODY, {})
    beside.close()


@pytest.mark.parametrize("name", ["", "a b", 'a"b', "a'b", "a" * 64, "pg_queue", "public", "information_schema", "rowq", "ü"])
def test_names_that_are_none(run: Run, bare: str, name: str) -> None:
    with pytest.raises(InvalidArgument):
        install_peq(bare, name)
    result = installed(run, bare, name)
    assert result.exit_code == 2
    assert result.err


def test_the_dead_letters_of_a_queue_have_no_schema(bare: str) -> None:
    with pytest.raises(NameReserved):
        install_peq(bare, "test01.dlq")


def test_a_schema_with_other_things_in_it_is_left_alone(bare: str, own: psycopg.Connection) -> None:
    own.execute("CREATE SCHEMA empty")
    install_peq(bare, "empty")
    for number, thing in enumerate(("TABLE s{}.message_audit (id INT)", "FUNCTION s{}.f() RETURNS INT LANGUAGE sql AS 'SELECT 1'")):
        own.execute(f"CREATE SCHEMA s{number}")
        own.execute(f"CREATE {thing.format(number)}".encode())
        with pytest.raises(InvalidArgument, match="other objects"):
            install_peq(bare, f"s{number}")


def test_the_tables_may_be_in_another_schema(bare: str) -> None:
    url = f"{bare}&schema=mine"
    rowq.migrate(url)
    install_peq(url, "test01")
    sql = Sql(bare)
    sql.enqueue(1)
    with rowq.connect(url, maintenance=False) as broker:
        assert broker.stats("test01").ready == 1
    assert sql.dequeue()[1] == 1
    sql.close()
    with pytest.raises(InvalidArgument, match="PEQ's procedures for these tables"):
        install_peq(bare, "test01")
    install_peq(url, "test01")


def test_tables_of_another_version_are_refused(run: Run, bare: str, own: psycopg.Connection) -> None:
    own.execute("INSERT INTO rowq.rowq_migrations VALUES (99, 0)")
    with pytest.raises(SchemaMismatch):
        install_peq(bare, "test01")
    result = installed(run, bare, "test01")
    assert result.exit_code != 0 and result.err
    assert own.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'test01'").fetchall() == []


def test_tables_that_are_not_there_are_made(run: Run, bare: str, own: psycopg.Connection) -> None:
    own.execute("DROP SCHEMA rowq CASCADE")
    assert installed(run, bare, "test01").exit_code == 0
    sql = Sql(bare)
    sql.enqueue(1)
    assert sql.dequeue()[1] == 1
    sql.close()


def test_sqlite_has_no_procedures(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    rowq.migrate(url)
    result = installed(run, url, "test01")
    assert (result.exit_code, "PostgreSQL" in result.err) == (2, True)


def test_a_server_has_no_tables(run: Run) -> None:
    assert installed(run, "http://localhost:1", "test01").exit_code == 2


def test_uuids_are_made_where_nobody_else_makes_them(bare: str, own: psycopg.Connection) -> None:
    own.execute("DROP FUNCTION IF EXISTS public.uuid_generate_v4()")
    install_peq(bare, "test01")
    row = own.execute("SELECT uuid_generate_v4(), test01.uuid_generate_v4()").fetchone()
    assert row is not None and [id.version for id in row] == [4, 4]
    own.execute("CREATE SCHEMA extensions")
    own.execute("ALTER FUNCTION public.uuid_generate_v4() SET SCHEMA extensions")
    install_peq(bare, "test02")
    assert own.execute("SELECT TO_REGPROC('public.uuid_generate_v4') IS NULL").fetchall() == [(True,)]


def test_a_client_needs_no_more_than_rights_to_the_tables(bare: str, own: psycopg.Connection) -> None:
    install_peq(bare, "test01")
    name = f"peq_{uuid4().hex}"
    own.execute(f"CREATE ROLE {name}")
    try:
        for grants in (
            ["USAGE ON SCHEMA test01, rowq"],
            [
                "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA rowq",
                "USAGE ON ALL SEQUENCES IN SCHEMA rowq",
                "SELECT ON ALL TABLES IN SCHEMA test01",
            ],
        ):
            own.execute(f"SET ROLE {name}")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                own.execute("CALL test01.enqueue('{}')")
            own.execute("RESET ROLE")
            for grant in grants:
                own.execute(f"GRANT {grant} TO {name}".encode())
        own.execute(f"SET ROLE {name}")
        own.execute("CALL test01.enqueue('{}')")
        ids = own.execute("SELECT msg_id FROM test01.dequeue('a')").fetchone()
        own.execute("CALL test01.message_ack(%s, 'a', 'ack')", ids)
        assert len(own.execute("SELECT * FROM test01.message_audit").fetchall()) == 3
    finally:
        own.execute("RESET ROLE")
        own.execute(f"DROP OWNED BY {name}")
        own.execute(f"DROP ROLE {name}")


def test_a_reader_sees_no_other_queue_whatever_it_asks(bare: str, own: psycopg.Connection) -> None:
    """A function of the reader's that costs nothing is called first, unless a view is a barrier."""
    install_peq(bare, "test01")
    name = f"peq_{uuid4().hex}"
    with rowq.connect(bare, maintenance=False) as broker:
        for state in ("ready", "dead", "history"):
            broker.configure("other", keep="body")
            broker.send("other", "secret")
            for delivery in broker.receive("other", consumer="secret") if state != "ready" else ():
                (broker.reject if state == "dead" else broker.ack)(delivery)
    told: list[str] = []
    own.add_notice_handler(lambda notice: told.append(str(notice.message_primary)))
    own.execute(f"CREATE ROLE {name}")
    try:
        own.execute(f"GRANT USAGE ON SCHEMA test01 TO {name}")
        own.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA test01 TO {name}")
        own.execute(f"SET ROLE {name}")
        own.execute(
            """
            CREATE FUNCTION pg_temp.leak(anything ANYELEMENT) RETURNS BOOLEAN LANGUAGE plpgsql COST 0.0000001
            AS 'BEGIN RAISE NOTICE ''%'', anything; RETURN TRUE; END'
            """
        )
        for view in ("message_audit", "message_queue", "message_history", "dead_letter"):
            for (column,) in own.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::REGCLASS AND attnum > 0", [f"test01.{view}"]
            ).fetchall():
                assert own.execute(f"SELECT * FROM test01.{view} WHERE pg_temp.leak({column})".encode()).fetchall() == []
        assert told == []
    finally:
        own.execute("RESET ROLE")
        own.execute(f"DROP OWNED BY {name}")
        own.execute(f"DROP ROLE {name}")


def test_a_search_path_of_the_callers_changes_nothing(bare: str, own: psycopg.Connection) -> None:
    install_peq(bare, "test01")
    own.execute("CREATE SCHEMA evil")
    own.execute("CREATE TABLE evil.rowq_ready (seq INT)")
    own.execute("CREATE FUNCTION evil.gen_random_uuid() RETURNS UUID LANGUAGE plpgsql AS 'BEGIN RAISE ''evil''; END'")
    own.execute("CREATE FUNCTION evil.clock_timestamp() RETURNS TIMESTAMPTZ LANGUAGE plpgsql AS 'BEGIN RAISE ''evil''; END'")
    own.execute("SET search_path TO evil, pg_catalog")
    own.execute("CALL test01.enqueue('{}')")
    assert own.execute("SELECT msg_json FROM test01.dequeue('a')").fetchall() == [({},)]


def test_backslashes_of_the_callers_change_nothing(bare: str, own: psycopg.Connection) -> None:
    install_peq(bare, "test01")
    own.execute("SET standard_conforming_strings = off")
    own.execute("CALL test01.enqueue('1')")
    assert own.execute("SELECT msg_json FROM test01.dequeue('a')").fetchall() == [(1,)]


def test_every_function_has_a_path_of_its_own(bare: str, own: psycopg.Connection) -> None:
    install_peq(bare, "test01")
    unpinned = (
        "SELECT proname FROM pg_proc WHERE pronamespace = 'test01'::REGNAMESPACE AND NOT COALESCE(proconfig[1] LIKE 'search_path=%', FALSE)"
    )
    assert own.execute(unpinned).fetchall() == []
    assert own.execute("SELECT proname FROM pg_proc WHERE pronamespace = 'test01'::REGNAMESPACE AND prosecdef").fetchall() == []


def test_dropping_the_schema_leaves_the_messages(bare: str, own: psycopg.Connection) -> None:
    install_peq(bare, "test01")
    own.execute("CALL test01.enqueue('1')")
    own.execute("DROP SCHEMA test01 CASCADE")
    with rowq.connect(bare, maintenance=False) as broker:
        assert [delivery.payload for delivery in broker.receive("test01")] == [1]


def test_the_doctor_knows_the_schemas_and_which_are_old(bare: str, own: psycopg.Connection) -> None:
    def finding() -> tuple[bool, str, str | None]:
        (found,) = [finding for finding in broker.doctor() if finding.check == "peq"]
        return found.ok, found.detail, found.advice

    with rowq.connect(bare, maintenance=False) as broker:
        assert finding() == (True, "none", None)
        install_peq(bare, "test01")
        install_peq(bare, "test02")
        assert finding() == (True, "test01, test02", None)
        old = "CREATE OR REPLACE FUNCTION test02.made_by_rowq() RETURNS TEXT LANGUAGE sql AS 'SELECT ''a door to \"rowq\", made of old''"
        own.execute(f"{old}'")
        assert finding() == (False, "made by another release: test02", "run `rowq peq install test02` again, then for the others")
        install_peq(bare, "test02")
        assert finding()[0]
        own.execute("DROP VIEW test01.message_queue")  # as dropping the tables does that it shows
        ok, detail, advice = finding()
        assert (ok, detail.rpartition(": ")[2], advice) == (False, "test01", "run `rowq peq install test01` again, then for the others")
        install_peq(bare, "test01")
        assert finding()[0]
