"""What was in a file of an older release is there after the upgrade, in every state, and goes on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import rowq
from rowq.store.migrations import VERSION
from tests.store.test_schema import FROZEN, install_frozen
from tests.support.tables import faults_of


def fill(broker: rowq.Broker) -> None:
    """A message in every state."""
    broker.configure("q", keep="body")
    broker.send("q", "acked")
    broker.ack(*broker.receive("q"))
    broker.send("q", "dead", id="mine")
    broker.reject(*broker.receive("q"), reason="on purpose")
    broker.send("q", "leased")
    broker.receive("q", lease=3600)
    broker.send("q", "scheduled", delay=3600, key="k")
    broker.send_many("q", ["ready", "blocked"], group="g", ttl=3600)


def shared_columns(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Of the tables that there were then, those columns that there are still."""
    for (table,) in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table' AND name LIKE 'rowq_%'").fetchall():
        now, then = ({row[1] for row in connection.execute(f"PRAGMA {schema}.table_info({table})")} for schema in ("filled", "main"))
        yield table, ", ".join(sorted(now & then))


@pytest.mark.parametrize("script", FROZEN[:-1], ids=[script.name for script in FROZEN[:-1]])
def test_messages_of_an_older_release_are_there_after_the_upgrade(path: Path, tmp_path: Path, script: Path) -> None:
    filled = tmp_path / "filled.db"
    with rowq.connect(f"sqlite:///{filled}", maintenance=False) as broker:
        fill(broker)
        before = {message.id: (message.state, message.payload, message.attempts) for message in broker.walk()}
        audit = broker.audit("mine")
    version = install_frozen(path, script)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ATTACH ? AS filled", (str(filled),))
        for table, columns in shared_columns(connection):
            if columns and table not in ("rowq_migrations", "rowq_counters"):
                connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM filled.{table}")
        connection.execute(
            "UPDATE main.rowq_counters SET value = (SELECT value FROM filled.rowq_counters f WHERE f.name = rowq_counters.name)"
        )
        connection.commit()

    assert rowq.migrate(f"sqlite:///{path}") == (version, VERSION)
    assert faults_of(path) == {}
    with rowq.connect(f"sqlite:///{path}", maintenance=False) as broker:
        assert {message.id: (message.state, message.payload, message.attempts) for message in broker.walk()} == before
        assert broker.audit("mine") == audit
        assert broker.send("q", "new") not in before
        assert broker.redrive("q") == 1
        assert sorted(delivery.payload for delivery in broker.receive("q", max=10)) == ["dead", "new", "ready"]
    assert faults_of(path) == {}
