"""Every named query is one that SQLite understands and somebody runs."""

from __future__ import annotations

import re
from pathlib import Path

import rowq
from rowq.store.sqlite.dialect import Sqlite
from rowq.store.transaction import _WRITES
from tests.store.statements import explain, statements_of

_BUILT_NAMES = re.compile(r'f"(\w+_)\{')


def test_every_query_is_understood(dialect: Sqlite) -> None:
    names = dialect._queries.names()
    assert len(names) > 80
    for name in names:
        assert explain(dialect, name), name


def test_every_write_names_the_parameters_of_its_query(dialect: Sqlite) -> None:
    for name, columns in _WRITES.items():
        assert sorted(columns or ["seqs"]) == dialect._queries.parameters(name), name


def test_a_state_row_goes_before_its_body_and_comes_after_it() -> None:
    """It is the lock: whoever deleted the body first would take it from under somebody who holds the state row."""
    order = list(_WRITES)
    states = ("ready", "scheduled", "blocked", "leased", "dead", "history")
    assert max(order.index(f"delete_{state}") for state in states) < order.index("delete_message")
    assert order.index("insert_message") < min(order.index(f"insert_{state}") for state in states)


def test_every_query_is_run_by_somebody(dialect: Sqlite) -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path(rowq.__file__).parent.rglob("*.py"))
    built = tuple(_BUILT_NAMES.findall(source))
    unused = [name for name in dialect._queries.names() if f'"{name}"' not in source and not name.startswith(built)]
    assert unused == []


def test_no_query_locks_on_sqlite(dialect: Sqlite) -> None:
    """FOR UPDATE is meant for servers; here there is one writer."""
    for name in dialect._queries.names():
        assert all("FOR UPDATE" not in text for text, _ in statements_of(dialect, name)), name
