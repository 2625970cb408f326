"""The plans of what is asked often: an index is walked from its beginning, nothing is scanned, nothing is sorted."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Container
from pathlib import Path

import pytest

from rowq import Broker, Draft
from rowq.store.sqlite.dialect import Sqlite
from tests.store.conftest import Connect
from tests.store.statements import plan_of

MAY_SCAN = {
    "is_installed": "sqlite_master",
    "read_all_settings": "as many rows as there are queues",
    "list_queue_names": "in order of name, up to the limit and no further",
    "read_api_keys": "as many rows as there are keys",
    "list_ended_sessions": "as many rows as there are sessions, once a minute and at each login",
    "list_surplus_sessions": "as many rows as there are sessions, at each login",
    "list_streams": "as many rows as there are streams",
    "read_all_consumers": "as many rows as there are consumers, when somebody looks",
    "count_in_flight": "counts up to the limit and no further",
    "tally_audit": "the lines of a range, gathered by what they tell",
    "list_silent_consumers": "as many rows as there are consumers, once a minute",
    "find_queues_with_work": "as many rows as there are queues, each looked up in an index",
    "find_newest": "from the end of the primary key, one row",
    "find_origins": "the few ids of one call, each once",
    "find_told_origins": "the few ids of one call, each once",
    "count_depth": "counts up to the limit and no further",
    "count_ready_upto": "counts up to the limit and no further",
    "measure_history": "counts the lines of a range, up to the limit and no further",
    "read_audit": "the few lines of one message, put in order",
    "bounds_audit": "from the beginning of the primary key, one row",
    "measure_audit": "counts the lines of a range, up to the limit and no further",
    "publish_messages": "the rows of one piece, numbered in the order of their key",
    "survey_stage": "all of a stage, once, to learn of which queues it is",
}
"""Queries that go through more than they give, and why that is well."""

MAY_SCAN_BY_STATISTICS = {
    "count_states": "most of the table is of that queue",
    "measure_lag": "most of the table is of that queue",
    "list_dead": "most of the table is of that queue",
    "list_finished": "most of the table is of that queue",
    "list_expired": "most of the table is of that queue",
    "count_ends": "most of the table is of that queue",
}

INDEXES = {
    "take_ready": "SEARCH r USING PRIMARY KEY (queue=?)",
    "look_ready": "SEARCH rowq_ready USING PRIMARY KEY (queue=? AND (ranking,position)>(?,?))",
    "take_ready_at": "SEARCH r USING PRIMARY KEY (queue=? AND ranking=? AND position=?)",
    "take_due": "SEARCH s USING INDEX rowq_scheduled_due (queue=? AND due<?)",
    "take_lease_expired": "SEARCH rowq_leased USING COVERING INDEX rowq_leased_until (queue=? AND lease_until>? AND lease_until<?)",
    "take_dead": "SEARCH d USING INDEX rowq_dead_due (queue=? AND due>? AND due<?)",
    "list_newest_dead": "SEARCH rowq_dead USING INDEX rowq_dead_age (queue=?)",
    "lock_leased": "SEARCH rowq_leased USING INTEGER PRIMARY KEY (rowid=?)",
    "tally_audit": "SEARCH a USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    "list_events": "SEARCH a USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    "read_audit": "SEARCH a USING INDEX rowq_audit_seq (seq=?)",
    "find_session": "SEARCH rowq_sessions USING PRIMARY KEY (digest=?)",
    "hold_ready": "SEARCH r USING PRIMARY KEY (queue=? AND ranking=? AND position=? AND seq=?)",
}
"""The very index, to its full depth: a shorter prefix would still be no scan, and still be slow."""

_WHOLE_TABLE = re.compile(r"SCAN (?!json_each|CONSTANT ROW)|TEMP B-TREE")


def slow_steps(dialect: Sqlite, query: str) -> list[str]:
    return [step for step in plan_of(dialect, query) if _WHOLE_TABLE.search(step)]


def all_slow_steps(dialect: Sqlite, allowed: Container[str]) -> dict[str, list[str]]:
    slow = {query: slow_steps(dialect, query) for query in dialect._queries.names() if query not in allowed}
    return {query: steps for query, steps in slow.items() if steps}


def test_nothing_is_scanned_or_sorted(dialect: Sqlite) -> None:
    assert all_slow_steps(dialect, MAY_SCAN) == {}


@pytest.mark.parametrize("query", MAY_SCAN)
def test_an_exception_is_still_needed(dialect: Sqlite, query: str) -> None:
    assert slow_steps(dialect, query), "take it off the list"


@pytest.mark.parametrize("query", INDEXES)
def test_the_index_is_used_to_its_depth(dialect: Sqlite, query: str) -> None:
    plan = [step.replace("due>? AND ", "") for step in plan_of(dialect, query)]
    assert INDEXES[query].replace("due>? AND ", "") in plan


@pytest.mark.parametrize(
    "query",
    [
        "take_due",
        "take_lease_expired",
        "take_ended",
        "list_old_dead",
        "list_old_history",
        "list_old_requests",
        "list_old_staged",
    ],
)
def test_c50_maintenance_walks_an_index_and_ends_with_its_piece(dialect: Sqlite, query: str) -> None:
    assert slow_steps(dialect, query) == []
    assert dialect._queries.bind(query, {}).rstrip().endswith("LIMIT :limit")


def test_statistics_change_no_plan(connect: Connect, path: Path) -> None:
    """`PRAGMA optimize` gathers them, and one large queue among small ones must not talk SQLite into scanning."""
    _fill(connect())
    with sqlite3.connect(path) as connection:
        connection.execute("ANALYZE")
    connection.close()
    dialect = connect()._engine.dialect
    assert isinstance(dialect, Sqlite)
    assert all_slow_steps(dialect, MAY_SCAN | MAY_SCAN_BY_STATISTICS) == {}


def test_a_slow_plan_would_be_seen(dialect: Sqlite, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = "SELECT * FROM rowq_ready WHERE seq = 1 ORDER BY error"
    monkeypatch.setattr(dialect._queries, "bind", lambda query, values: slow)
    assert len(slow_steps(dialect, "is_installed")) == 2


def _fill(broker: Broker) -> None:
    broker.configure("large", keep="outcome")
    broker.send_many("large", [_draft(number) for number in range(5_000)])
    for number in range(10):
        broker.send_many(f"small-{number}", range(3))
    broker.receive("large", max=500, lease=600)
    broker.ack_many(broker.receive("large", max=300))
    broker.reject_many(broker.receive("large", max=300))


def _draft(number: int) -> Draft:
    return Draft(
        number,
        priority=number % 3,
        group=f"g{number % 50}" if number % 4 == 0 else None,
        key=f"k{number}" if number % 5 == 0 else None,
        delay=60 if number % 3 == 0 else 0,
        ttl=1_000 if number % 7 == 0 else None,
    )
