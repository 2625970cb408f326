"""A process of the release before goes on after a migration, so that none may take away what it reads or writes."""

from __future__ import annotations

import re

import pytest

from rowq.store.migrations import VERSION
from rowq.store.query import read_sql

_COMMENT = re.compile(r"--[^\n]*")
_TAKES_AWAY = re.compile(r"\bDROP (?:COLUMN|SEQUENCE)\b|\bRENAME\b|\bTRUNCATE\b|\bDELETE\b|\bALTER COLUMN \w+ (?:TYPE|SET NOT NULL)\b")
_NEEDS_A_VALUE = re.compile(r"\bADD COLUMN\b(?=[^,;]*\bNOT NULL\b)(?![^,;]*\bDEFAULT\b)")
_DROPPED, _MADE = re.compile(r"\bDROP TABLE (\w+)"), re.compile(r"\bCREATE TABLE (\w+)")
STEPS = [
    f"migrations/{version:04}.{dialect}.sql"
    for dialect, first in (("sqlite", 2), ("postgresql", 4), ("mariadb", 4))
    for version in range(first, VERSION + 1)
]


def faults(script: str) -> list[str]:
    bare = _COMMENT.sub("", script)
    dropped = set(_DROPPED.findall(bare)) - set(_MADE.findall(bare))  # SQLite makes a table anew to change its key
    return [*_TAKES_AWAY.findall(bare), *_NEEDS_A_VALUE.findall(bare), *sorted(dropped)]


@pytest.mark.parametrize("file", STEPS)
def test_a_migration_takes_nothing_away(file: str) -> None:
    assert faults(read_sql(file)) == []


@pytest.mark.parametrize(
    "script",
    [
        "DROP TABLE rowq_kv;",
        "ALTER TABLE rowq_kv RENAME TO rowq_values;",
        "DROP TABLE rowq_kv; CREATE TABLE rowq_values (id INTEGER);",
        "ALTER TABLE rowq_ready ADD COLUMN colour TEXT NOT NULL;",
        "ALTER TABLE rowq_ready ALTER COLUMN seq TYPE TEXT;",
    ],
)
def test_one_that_does_is_found(script: str) -> None:
    assert faults(script)


def test_a_column_with_a_default_is_an_addition() -> None:
    assert faults("ALTER TABLE rowq_ready ADD COLUMN colour TEXT NOT NULL DEFAULT 'red';") == []
