"""Every named query is one that the servers understand, somebody runs, and an index answers where it is asked often."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq.store.postgresql.dialect import Postgresql
from rowq.store.postgresql.session import PostgresqlSession
from rowq.store.query import LIST_PARAMETER
from tests.support.database import PostgresqlDatabase

_BUILT_NAMES = re.compile(r'f"(\w+_)\{')

NO_PLAN = {
    *("create_schema", "use_schema", "declare_stream", "fetch_stream", "close_stream", "from_lists", "pick_columns"),
    *(f"vacuum_{table}" for table in ("ready", "leased", "scheduled", "expiring", "waiting_keys", "group_heads", "counters", "messages")),
}
"""Commands, and pieces of queries: PostgreSQL plans neither."""

TYPED = {"now": 1, "at": 1, "mark": 0, "written_at": 1, "queue": "q", "actor": "a", "entry_key": "k", "message_id": "m"}
"""Where a value is written as it comes, PostgreSQL cannot see of which type it is to be; everywhere else it can."""

INDEXES: dict[str, tuple[str, dict[str, Any]]] = {
    "claim_ready": ("rowq_ready_pkey", {"ranking": 0, "position": 1, "limit": 10}),
    "take_due": ("rowq_scheduled_due", {"floor": 1, "now": 2, "limit": 10}),
    "take_lease_expired": ("rowq_leased_until", {"floor": 1, "now": 2, "limit": 10}),
    "take_dead": ("rowq_dead_due", {"now": 2, "limit": 10}),
    "list_newest_dead": ("rowq_dead_age", {"characters": 400, "limit": 10}),
    "browse_ready": ("rowq_ready_pkey", {"a": 1, "b": 1, "limit": 10}),
    "browse_scheduled": ("rowq_scheduled_due", {"a": 1, "b": 1, "limit": 10}),
    "browse_leased": ("rowq_leased_until", {"a": 1, "b": 1, "limit": 10}),
    "browse_blocked": ("rowq_blocked_pkey", {"a": "g", "b": 1, "limit": 10}),
    "match_dead": ("rowq_dead_pkey", {"b": 1, "characters": 400, "limit": 10}),
    "browse_dead_newest": ("rowq_dead_age", {"a": 1, "b": 1, "limit": 10}),
    "match_dead_newest": ("rowq_dead_age", {"a": 1, "b": 1, "characters": 400, "limit": 10}),
    "browse_finished": ("rowq_history_age", {"a": 1, "b": 1, "limit": 10}),
    "browse_finished_newest": ("rowq_history_age", {"a": 1, "b": 1, "limit": 10}),
    "lock_leased": ("rowq_leased_pkey", {"seqs": [1, 2]}),
    "ack_all": ("rowq_leased_pkey", {"seqs": [1, 2], "tokens": [1, 2], "queues": ["q"], "audited": ["q"], "harmless": 96}),
    "hold_leased": ("rowq_leased_pkey", {"seqs": [1, 2]}),
    "hold_ready": ("rowq_ready_pkey", {"seqs": [1, 2]}),
    "find_ready": ("rowq_ready_pkey", {"queues": ["q"]}),
}
"""The very index: others begin with the same column."""


@pytest.fixture
def dialect() -> Iterator[Postgresql]:
    with rowq.connect(PostgresqlDatabase().url, maintenance=False) as broker:
        broker.send_many("q", range(200))
        dialect = broker._engine.dialect
        assert isinstance(dialect, Postgresql)
        yield dialect


def explained(dialect: Postgresql, query: str, how: str = "EXPLAIN", **values: Any) -> str:
    statement = dialect._queries.of_one(query)
    question = type(statement)(f"{how} {statement.text.decode()}", statement.names, "")
    lists = LIST_PARAMETER.findall(dialect._queries[query])
    given = {name: None if name in lists else TYPED.get(name) for name in statement.names} | values
    with dialect.writing(durable=False) as session:
        assert isinstance(session, PostgresqlSession)
        return "\n".join(row[0] for row in session._line.ask(question, given))


def test_every_query_is_understood(dialect: Postgresql) -> None:
    names = [name for name in dialect._queries.names() if name not in NO_PLAN]
    assert len(names) > 80
    for name in names:
        try:
            assert explained(dialect, name), name
        except rowq.RowqError as error:
            raise AssertionError(f"{name}: {error}") from error


def test_a_share_is_found_at_the_head_of_the_index_and_taken_by_its_places(dialect: Postgresql) -> None:
    plan = explained(dialect, "claim_share", ranking=0, position=1, limit=10, width=100, count=5, index=1)
    assert re.search(r"CTE head\n +->  Limit .*\n +->  Index Scan using rowq_ready_pkey", plan), plan
    assert re.search(r"CTE taken\n(?: +.*\n)*? +->  Tid Scan on rowq_ready", plan), plan
    assert "Seq Scan on rowq" not in plan, plan


@pytest.mark.parametrize("query", INDEXES)
def test_the_index_is_used(dialect: Postgresql, query: str) -> None:
    index, values = INDEXES[query]
    plan = explained(dialect, query, **values)
    assert re.search(rf"Index (Only )?Scan (Backward )?using {index}", plan), plan
    assert "Seq Scan on rowq" not in plan, plan
    assert not re.search(r"(?<!Incremental )Sort  ", plan), plan  # those of one moment may be put in order


def test_every_query_is_run_by_somebody(dialect: Postgresql) -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path(rowq.__file__).parent.rglob("*.py"))
    built = tuple(_BUILT_NAMES.findall(source))
    unused = [name for name in dialect._queries.names() if f'"{name}"' not in source and not name.startswith(built)]
    assert unused == []


def test_a_claim_begins_at_its_place_and_reads_no_more_than_it_wants(dialect: Postgresql) -> None:
    """The head hint is worth nothing if the index is walked from its beginning all the same."""
    how = "EXPLAIN (ANALYZE, BUFFERS OFF, TIMING OFF, COSTS OFF)"
    values = {"ranking": 0, "position": 150, "limit": 10, "tokens": [7] * 10, "until": 9, "has_deadline": 4, "is_audited": False}
    plan = explained(dialect, "claim_ready", how, **values)
    scan = next(line for line in plan.splitlines() if "rowq_ready_pkey" in line)
    assert re.search(r"rows=10(\.00)? ", scan), plan
    assert "Rows Removed" not in plan, plan


@pytest.mark.parametrize(("query", "values"), [("read_audit", {"seq": 7}), ("read_actions", {"limit": 1000})])
def test_few_lines_of_a_long_audit_are_found_by_its_index(dialect: Postgresql, query: str, values: dict[str, Any]) -> None:
    plan = explained(dialect, query, **values)
    assert "Index Scan using rowq_audit_seq" in plan and "rowq_audit_pkey" not in plan, plan


def test_what_happened_lately_is_counted_from_its_first_line_on(dialect: Postgresql) -> None:
    plan = explained(dialect, "tally_audit", after=150, upto=200, slot_ms=10_000)
    assert "Index Scan using rowq_audit_pkey" in plan and "Seq Scan" not in plan, plan
