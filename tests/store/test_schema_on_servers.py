"""The tables on servers: made once however many start together, kept as they were released, and refused when they are too new."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rowq
from rowq import SchemaMismatch
from rowq.store.migrations import VERSION
from rowq.store.query import read_sql
from tests.support.asking import ask
from tests.support.servers import Server, shared_mariadb, shared_postgresql

SERVERS = {"postgresql": shared_postgresql, "mariadb": shared_mariadb}
FROZEN = Path(__file__).with_name("schemas")
FIRST = 3
"""The first version that servers had."""

_COMMENT = re.compile(r"--[^\n]*")


def bare(script: str) -> str:
    return " ".join(_COMMENT.sub("", script).split())


@pytest.fixture(params=list(SERVERS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str) -> Iterator[str]:
    """A database without any tables."""
    server: Server = SERVERS[kind]()
    server.create_database(f"rowq_schema_{os.getpid()}")
    yield server.url(f"rowq_schema_{os.getpid()}")
    server.drop_database(f"rowq_schema_{os.getpid()}")


@pytest.fixture
def fresh_url(kind: str) -> Iterator[str]:
    """Another one."""
    server: Server = SERVERS[kind]()
    server.create_database(f"rowq_fresh_{os.getpid()}")
    yield server.url(f"rowq_fresh_{os.getpid()}")
    server.drop_database(f"rowq_fresh_{os.getpid()}")


def qualified(kind: str, table: str) -> str:
    return f"rowq.{table}" if kind == "postgresql" else table


def test_every_version_is_frozen(kind: str) -> None:
    """A change to released tables is a new version with a migration; the frozen copies stay as they are."""
    scripts = sorted(FROZEN.glob(f"*.{kind}.sql"))
    assert [script.name for script in scripts] == [f"{version:04}.{kind}.sql" for version in range(FIRST, VERSION + 1)]
    assert bare(scripts[-1].read_text(encoding="utf-8")) == bare(read_sql(f"schema.{kind}.sql"))


@pytest.mark.parametrize("version", range(FIRST, VERSION))
def test_every_version_becomes_what_a_fresh_install_gives(
    kind: str, url: str, fresh_url: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that was in it: messages in their states, finished ones, the audit, and numbers that go on where they were."""
    with monkeypatch.context() as patch:
        script = (FROZEN / f"{version:04}.{kind}.sql").read_text(encoding="utf-8")
        patch.setattr("rowq.store.migrations.VERSION", version)
        patch.setattr("rowq.store.migrations.read_sql", lambda file: script)
        patch.setattr("rowq.store.postgresql.session.PostgresqlSession.draw_seqs", lambda session, count: _draw(url, count))
        with rowq.connect(url) as broker:
            broker.configure("q", keep="body", audit=False)
            ids = broker.send_many("q", ["acked", "waiting", "later"])
            audit, messages = qualified(kind, "rowq_audit"), qualified(kind, "rowq_messages")
            ask(url, f"INSERT INTO {audit} (at, queue, seq, event) SELECT sent_at, queue, seq, 'enqueued' FROM {messages}")
            broker.ack(*broker.receive("q"))
            broker.configure("q", audit=True)
    assert rowq.migrate(url) == (version, VERSION)
    rowq.migrate(fresh_url)
    assert tables_in(kind, url) == tables_in(kind, fresh_url)
    with rowq.connect(url) as broker:
        assert [broker.get(id).payload for id in ids] == ["acked", "waiting", "later"]
        broker.ack_many(broker.receive("q", max=2))
        assert [event.event for event in broker.audit(ids[1])] == ["enqueued", "delivered", "acked"]
        assert (broker.stats("q").finished, broker.stats("q").ready) == (3, 0)


def _draw(url: str, count: int) -> int:
    """As older releases did, without a function in the database."""
    drawn = f"SELECT nextval('rowq.rowq_seq') AS number FROM generate_series(1, {count})"
    return int(ask(url, f"SELECT MIN(number) FROM ({drawn}) AS drawn")[0][0])


def tables_in(kind: str, url: str) -> dict[str, list[tuple[object, ...]]]:
    """Every table of ours: its columns with their types and defaults, and its indexes."""
    here = "table_schema = 'rowq'" if kind == "postgresql" else "table_schema = DATABASE()"
    columns = ask(
        url,
        "SELECT table_name, column_name, data_type, is_nullable, column_default, character_maximum_length, collation_name "
        f"FROM information_schema.columns WHERE {here} AND table_name LIKE 'rowq%' ORDER BY table_name, column_name",
    )
    indexes = ask(
        url,
        "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'rowq' ORDER BY indexdef"
        if kind == "postgresql"
        else "SELECT table_name, index_name, seq_in_index, column_name, non_unique FROM information_schema.statistics "
        "WHERE table_schema = DATABASE() ORDER BY table_name, index_name, seq_in_index",
    )
    assert columns and indexes
    return {"columns": columns, "indexes": indexes}


def test_of_many_who_start_together_one_makes_the_tables(kind: str, url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        versions = list(pool.map(lambda _: rowq.migrate(url), range(8)))
    assert sorted(versions) == [(0, VERSION)] + [(VERSION, VERSION)] * 7
    with rowq.connect(url) as broker:
        broker.send("q", "x")
        assert [delivery.payload for delivery in broker.receive("q")] == ["x"]


def test_tables_of_a_newer_release_are_refused_and_left_alone(kind: str, url: str) -> None:
    rowq.migrate(url)
    ask(url, f"INSERT INTO {qualified(kind, 'rowq_migrations')} (version, applied_at) VALUES ({VERSION + 1}, 0)")
    for attempt in (rowq.migrate, rowq.connect):
        with pytest.raises(SchemaMismatch, match="upgrade rowq; nothing was changed"):
            attempt(url)
    assert ask(url, f"SELECT MAX(version) FROM {qualified(kind, 'rowq_migrations')}") == [(VERSION + 1,)]


def test_a_look_at_an_empty_database_makes_no_tables(kind: str, url: str) -> None:
    with pytest.raises(SchemaMismatch, match="run `rowq migrate`"):
        rowq.connect(url, migrate=False)
    here = "table_catalog = CURRENT_DATABASE()" if kind == "postgresql" else "table_schema = DATABASE()"
    assert ask(url, f"SELECT table_name FROM information_schema.tables WHERE {here} AND table_name LIKE 'rowq%'") == []


def test_the_tables_of_an_application_are_left_alone(kind: str, url: str) -> None:
    ask(url, "CREATE TABLE orders (name VARCHAR(20))", "INSERT INTO orders VALUES ('lamp')")
    rowq.migrate(url)
    assert ask(url, "SELECT name FROM orders") == [("lamp",)]
