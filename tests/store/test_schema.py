"""The tables of every released version are kept as they were, and each of them becomes the tables of today."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import rowq
from rowq import SchemaMismatch
from rowq.store.migrations import VERSION

FROZEN = sorted(Path(__file__).with_name("schemas").glob("*.sqlite.sql"))

_COMMENT = re.compile(r"--[^\n]*")
_SPACE = re.compile(r"\s+")
_BEFORE_A_MARK = re.compile(r" (?=[,)])")


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


def schema_of(path: Path) -> dict[str, str]:
    """Every table, index and view with its definition, without comments and line breaks, and as if no column had been added later."""
    with opened(path) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'").fetchall()
    return {name: _BEFORE_A_MARK.sub("", _SPACE.sub(" ", _COMMENT.sub("", sql)).strip()) for name, sql in rows}


def install_frozen(path: Path, script: Path) -> int:
    version = int(script.name.split(".")[0])
    with opened(path) as connection:
        connection.executescript(script.read_text(encoding="utf-8"))
        connection.execute("INSERT INTO rowq_migrations (version, applied_at) VALUES (?, 0)", (version,))
    return version


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def set_version(path: Path, version: int) -> None:
    with opened(path) as connection:
        connection.execute("INSERT INTO rowq_migrations (version, applied_at) VALUES (?, 0)", (version,))


def test_every_version_is_frozen() -> None:
    assert [script.name for script in FROZEN] == [f"{version:04}.sqlite.sql" for version in range(1, VERSION + 1)]


def test_the_newest_frozen_version_is_what_a_fresh_install_gives(path: Path, tmp_path: Path) -> None:
    """A change to released tables is a new version with a migration; the frozen copies stay as they are."""
    install_frozen(tmp_path / "frozen.db", FROZEN[-1])
    rowq.migrate(f"sqlite:///{path}")
    assert schema_of(path) == schema_of(tmp_path / "frozen.db")


@pytest.mark.parametrize("script", FROZEN, ids=[script.name for script in FROZEN])
def test_every_version_becomes_what_a_fresh_install_gives(path: Path, tmp_path: Path, script: Path) -> None:
    version = install_frozen(tmp_path / "old.db", script)
    assert rowq.migrate(f"sqlite:///{tmp_path / 'old.db'}") == (version, VERSION)
    rowq.migrate(f"sqlite:///{path}")
    assert schema_of(tmp_path / "old.db") == schema_of(path)


def test_migrating_twice_changes_nothing(path: Path) -> None:
    assert rowq.migrate(f"sqlite:///{path}") == (0, VERSION)
    before = digest(path)
    assert rowq.migrate(f"sqlite:///{path}") == (VERSION, VERSION)
    assert digest(path) == before


def test_the_tables_of_an_application_are_left_alone(path: Path) -> None:
    with opened(path) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO orders (name) VALUES ('a')")
    rowq.migrate(f"sqlite:///{path}")
    with opened(path) as connection:
        assert connection.execute("SELECT * FROM orders").fetchall() == [(1, "a")]
    assert {name for name in schema_of(path) if not name.startswith("rowq_")} == {"orders"}


@pytest.mark.parametrize("migrate", [True, False])
def test_a_newer_version_is_refused_and_left_as_it_is(path: Path, migrate: bool) -> None:
    rowq.migrate(f"sqlite:///{path}")
    set_version(path, VERSION + 1)
    before = digest(path)
    with pytest.raises(SchemaMismatch, match="upgrade rowq"):
        rowq.connect(f"sqlite:///{path}", migrate=migrate)
    assert digest(path) == before


def test_missing_tables_are_refused_where_nobody_may_make_them(path: Path) -> None:
    with opened(path) as connection:
        connection.execute("CREATE TABLE orders (name TEXT)")
    before = digest(path)
    with pytest.raises(SchemaMismatch, match="rowq migrate"):
        rowq.connect(f"sqlite:///{path}", migrate=False)
    assert digest(path) == before


def test_a_failed_migration_leaves_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rowq.store import migrations

    statements = migrations._statements
    monkeypatch.setattr(migrations, "_statements", lambda script: [*statements(script), "CREATE TABLE broken ("])
    with pytest.raises(rowq.StoreError):
        rowq.migrate(f"sqlite:///{path}")
    assert schema_of(path) == {}
    monkeypatch.undo()
    assert rowq.migrate(f"sqlite:///{path}") == (0, VERSION)
