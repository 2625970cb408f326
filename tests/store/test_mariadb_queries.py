"""Every named query is one that MariaDB understands, and those that are asked often, or lock, look no further than they must."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq import Broker, Draft
from rowq.store.dialect import Row
from rowq.store.lease import _MOST_KEYS
from rowq.store.mariadb.dialect import Mariadb
from rowq.store.mariadb.session import MariadbSession
from rowq.store.query import LIST_PARAMETER
from rowq.store.transaction import _WRITES
from tests.support.database import MariadbDatabase

_BUILT_NAMES = re.compile(r'f"(\w+_)\{')
_NUMBERS = {"limit", "most", "offset", "seconds"}

MESSAGES = 200
COMMANDS = ("LOCK TABLES", "UNLOCK TABLES", "SET ")
"""What has no plan."""


@pytest.fixture
def url() -> str:
    return MariadbDatabase().url


@pytest.fixture
def broker(url: str) -> Iterator[Broker]:
    with rowq.connect(url, maintenance=False) as broker:
        yield broker


@pytest.fixture
def dialect(broker: Broker) -> Mariadb:
    broker.send_many("q", range(MESSAGES))
    return dialect_of(broker)


def dialect_of(broker: Broker) -> Mariadb:
    dialect = broker._engine.dialect
    assert isinstance(dialect, Mariadb)
    return dialect


@contextmanager
def writing(dialect: Mariadb) -> Iterator[MariadbSession]:
    with dialect.writing(durable=False) as session:
        assert isinstance(session, MariadbSession)
        yield session


def values_for(dialect: Mariadb, query: str) -> dict[str, Any]:
    text = dialect._queries[query]
    lists = set(LIST_PARAMETER.findall(text))
    return {name: ["1", "2"] if name in lists else 1 if name in _NUMBERS else "1" for name in dialect._queries.parameters(query)}


def explained(session: MariadbSession, query: str, values: dict[str, Any]) -> list[Row]:
    statement = session._queries.statement(query).of_one(values, session._quote)
    return session._ask(statement if statement.startswith(b"SHOW") else b"EXPLAIN " + statement).rows


def reads(session: MariadbSession) -> dict[str, int]:
    """How often this connection has looked up a key, or gone from one row to the next."""
    rows = session._ask(b"SHOW SESSION STATUS LIKE 'Handler_read%'").rows
    return {name.removeprefix("Handler_read_"): int(count) for name, count in rows}


def reads_of(session: MariadbSession, query: str, **values: Any) -> dict[str, int]:
    return reads_of_statement(session, session._queries.statement(query).of_one(values, session._quote))


def reads_of_statement(session: MariadbSession, statement: bytes) -> dict[str, int]:
    """Of a statement alone. To ask for them is counted as well."""
    first, second = reads(session), reads(session)
    session._ask(statement)
    third = reads(session)
    counts = {name: third[name] - second[name] - (second[name] - first[name]) for name in third}
    return {name: count for name, count in counts.items() if count}


def statements(session: MariadbSession, query: str, rows: list[Row], most_bytes: int = 1 << 20) -> list[bytes]:
    columns = _WRITES[query]
    assert columns is not None
    return list(session._queries.statement(query).of_many(columns, rows, session._quote, most_bytes))


def test_every_query_is_understood(dialect: Mariadb) -> None:
    names = [name for name in dialect._queries.names() if not dialect._queries[name].startswith(COMMANDS)]
    assert len(names) > 80
    with dialect.asking() as session:
        for name in names:
            try:
                explained(session, name, values_for(dialect, name))
            except Exception as error:
                raise AssertionError(f"{name}: {error}") from error


@pytest.mark.parametrize("query", ["list_newest_dead", "browse_dead_newest", "match_dead_newest"])
def test_the_newest_dead_letters_are_the_end_of_an_index(broker: Broker, dialect: Mariadb, query: str) -> None:
    broker.reject_many(broker.receive("q", max=MESSAGES))
    filters = ("message_key", "group_key", "text", "sent_after", "sent_before", "reason", "error", "died_before", "died_after")
    values: dict[str, Any] = dict.fromkeys(filters)
    with dialect.asking() as session:
        counts = reads_of(session, query, queue="q", characters=400, a=1 << 62, b=1 << 62, limit=10, **values)
    assert sum(counts.values()) < 40, counts


def test_what_happened_lately_is_counted_from_its_first_line_on(dialect: Mariadb) -> None:
    """A table of its own for the counts is read too: never more than a few times what there is to count."""
    with dialect.asking() as session:
        [(end, _)] = session.rows("find_newest")
        counts = reads_of(session, "tally_audit", after=end - 10, upto=end, slot_ms=10_000)
    assert end > 100 and sum(counts.values()) < 50, counts


def test_every_write_names_the_parameters_of_its_query(dialect: Mariadb) -> None:
    for name, columns in _WRITES.items():
        if name != "insert_audit_run":  # a row is a line here
            assert sorted(columns or ["seqs"]) == dialect._queries.parameters(name), name


def test_every_query_of_mariadb_is_run_by_somebody() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path(rowq.__file__).parent.rglob("*.py"))
    built = tuple(_BUILT_NAMES.findall(source))
    files = (Path(rowq.__file__).parent / "store" / "sql").glob("*.mariadb.sql")
    names = [name for file in files for name in re.findall(r"^-- name: (\w+)$", file.read_text(encoding="utf-8"), re.MULTILINE)]
    assert len(names) > 20
    assert [name for name in names if f'"{name}"' not in source and not name.startswith(built)] == []


def test_a_claim_begins_at_its_place_and_reads_no_more_than_it_wants(dialect: Mariadb) -> None:
    """The head hint is worth nothing if the index is walked from its beginning all the same."""
    with writing(dialect) as session:
        counts = reads_of(session, "take_ready", queue="q", ranking=0, position=MESSAGES // 2, limit=10)
    assert counts == {"key": 1 + 10, "next": 9}  # the place, and the body of each


def test_a_claim_from_a_small_table_locks_only_what_it_gives(url: str, broker: Broker) -> None:
    """Beside somebody who takes one of three, the other two are there for all."""
    broker.send_many("q", range(3))
    with writing(dialect_of(broker)) as session, rowq.connect(url, maintenance=False) as other:
        assert len(session.rows("take_ready", queue="q", ranking=0, position=0, limit=1)) == 1
        deliveries = other.receive("q", max=3)
        assert [delivery.payload for delivery in deliveries] == [1, 2]
    for delivery in [*deliveries, *broker.receive("q")]:
        broker.reject(delivery)
    with writing(dialect_of(broker)) as session, rowq.connect(url, maintenance=False) as other:
        assert len(session.rows("take_dead", queue="q", now=1 << 60, limit=1)) == 1
        assert len(other.receive("q.dlq", max=3)) == 2


def test_a_claim_goes_on_with_the_next_rank(broker: Broker, dialect: Mariadb) -> None:
    broker.send_many("q", range(20), priority=-1)
    with writing(dialect) as session:
        rows = session.rows("take_ready", queue="q", ranking=0, position=MESSAGES - 4, limit=10)
        counts = reads_of(session, "take_ready", queue="q", ranking=0, position=MESSAGES - 4, limit=10)
    assert [(row[1], row[2]) for row in rows] == [(0, MESSAGES - 4 + n) for n in range(5)] + [(1, MESSAGES + 1 + n) for n in range(5)]
    assert sum(counts.values()) < 30


def test_a_share_is_looked_for_at_the_head_and_taken_by_its_keys(dialect: Mariadb) -> None:
    with writing(dialect) as session:
        assert reads_of(session, "look_ready", queue="q", ranking=0, position=MESSAGES // 2, limit=50) == {"key": 1, "next": 49}
        wanted = list(range(100, 150, 5))
        counts = reads_of(session, "take_ready_at", queue="q", ranking=0, positions=wanted, limit=10)
    assert counts == {"key": 10 + 10, "next": counts.get("next", 0)}
    assert counts["next"] <= 10  # each place ends with the look at what stands behind it


@pytest.mark.parametrize("size", [3, _MOST_KEYS * 4])
def test_a_share_of_any_size_is_taken_by_its_keys(broker: Broker, size: int) -> None:
    """A small table is not scanned, and many keys are not made a table of."""
    for start in range(0, size, 1_000):
        broker.send_many("q", range(min(1_000, size - start)))
    wanted = list(range(1, size + 1))[:_MOST_KEYS]
    with writing(dialect_of(broker)) as session:
        counts = reads_of(session, "take_ready_at", queue="q", ranking=0, positions=wanted, limit=1_000)
    assert counts == {"key": 2 * len(wanted), "next": len(wanted)}


def test_a_page_is_read_from_its_cursor_on(dialect: Mariadb) -> None:
    nothing = {"message_key": None, "group_key": None, "text": None, "sent_after": None, "sent_before": None}
    with writing(dialect) as session:
        counts = reads_of(session, "browse_ready", queue="q", a=0, b=MESSAGES // 2, limit=10, **nothing)
    assert counts == {"key": 1 + 10, "next": 9}


LOOKED_UP = ("lock_leased", "hold_leased", "hold_scheduled", "find_messages", "find_leases", "audit_delivered", "audit_acked")
LISTED = ("delete_leased", "delete_message", "delete_scheduled", "delete_expiring", "delete_moved")


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("query", [*LOOKED_UP, *LISTED])
def test_a_list_of_keys_is_looked_up_however_small_the_table(broker: Broker, dialect: Mariadb, query: str, rows: int) -> None:
    """A scan would lock, and wait for, what is none of its business."""
    broker.receive("q", max=rows) if rows else None
    wanted = list(range(1000, 1050))
    others = {name: 1 for name in dialect._queries.parameters(query) if name != "seqs"}
    with writing(dialect) as session:
        counts = reads_of(session, query, seqs=wanted, **others)
    assert counts == {"key": len(wanted)}


@pytest.mark.parametrize("query", ["lock_waiting_keys", "lock_group_heads", "find_following"])
def test_keys_and_groups_are_looked_up_one_by_one(broker: Broker, dialect: Mariadb, query: str) -> None:
    broker.send_many("q", [Draft(n, key=f"k{n}", group=f"g{n}") for n in range(30)])
    listed = {"lock_waiting_keys": "keys"}.get(query, "groups")
    with writing(dialect) as session:
        counts = reads_of(session, query, queue="q", **{listed: [f"{listed[0]}{n}" for n in range(10)]})
    assert counts == {"key": 30 if query == "find_following" else 10}


DELETES: dict[str, list[Row]] = {
    "delete_ready": [("q", 0, 1, 1), ("q", 0, 2, 2), ("q", 0, 9_999, 9_999)],
    "delete_blocked": [("q", "a", 1), ("q", "b", 2)],
    "free_key": [("q", "a", 1), ("q", "b", 2)],
    "delete_group_head": [("q", "a"), ("q", "b")],
}


@pytest.mark.parametrize("query", DELETES)
def test_rows_are_deleted_together_by_their_keys(dialect: Mariadb, query: str) -> None:
    with writing(dialect) as session:
        (statement,) = statements(session, query, DELETES[query])
        assert reads_of_statement(session, statement) == {"key": len(DELETES[query])}


@pytest.mark.parametrize("query", DELETES)
def test_a_piece_of_one_row_finds_its_key(dialect: Mariadb, query: str) -> None:
    with writing(dialect) as session:
        pieces = statements(session, query, DELETES[query], most_bytes=1)
        assert len(pieces) == len(DELETES[query])
        for piece in pieces:
            assert reads_of_statement(session, piece)["key"] <= 2


def test_own_ids_are_deleted_by_their_keys(broker: Broker, dialect: Mariadb) -> None:
    broker.send_many("q", [Draft(n, id=f"id-{n}") for n in range(5)])
    with writing(dialect) as session:
        for statement in statements(session, "delete_own_id", [("id-1", "q"), ("id-2", "q")]):
            assert reads_of_statement(session, statement) == {"key": 1}


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_dead_letters_are_deleted_by_their_keys(broker: Broker, dialect: Mariadb, rows: int) -> None:
    broker.reject_many(broker.receive("q", max=rows)) if rows else None
    with writing(dialect) as session:
        for statement in statements(session, "delete_dead", [("q", 1_000), ("q", 1_001)]):
            assert reads_of_statement(session, statement) == {"key": 1}


IN_A_ROW: dict[str, dict[str, Any]] = {
    "delete_ready_in_a_row": {"queue": "q", "ranking": 0, "first": 11, "last": 20, "limit": 10},
    "delete_leased_in_a_row": {"first": 1, "last": 10, "limit": 10},
}


@pytest.mark.parametrize("query", IN_A_ROW)
def test_rows_in_a_row_are_deleted_without_a_look_at_the_next_one(url: str, broker: Broker, dialect: Mariadb, query: str) -> None:
    """It may be somebody else's, and would be waited for."""
    broker.receive("q", max=10)
    with rowq.connect(url, maintenance=False) as other:
        other.receive("q", max=1) if query == "delete_leased_in_a_row" else None
        with writing(dialect_of(other)) as rival, writing(dialect) as session:
            rival.rows("take_ready", queue="q", ranking=0, position=21, limit=1)
            rival.rows("lock_leased", seqs=[11])
            assert reads_of(session, query, **IN_A_ROW[query]) == {"key": 1, "next": 9}


READY_ROWS = {
    "in a row": [("q", 0, 5, 5), ("q", 0, 6, 6), ("q", 0, 7, 7)],
    "with a gap": [("q", 0, 5, 5), ("q", 0, 6, 6), ("q", 0, 8, 8)],
    "out of order": [("q", 0, 7, 7), ("q", 0, 5, 5), ("q", 0, 6, 6)],
    "one twice": [("q", 0, 5, 5), ("q", 0, 7, 7), ("q", 0, 7, 7), ("q", 0, 8, 8)],
    "of two queues": [("q", 0, 5, 5), ("p", 0, 6, 6), ("q", 0, 7, 7)],
    "of two ranks": [("q", 0, 5, 5), ("q", 1, 6, 6), ("q", 0, 7, 7)],
    "one": [("q", 0, 5, 5)],
}


@pytest.mark.parametrize("rows", READY_ROWS.values(), ids=READY_ROWS)
def test_exactly_the_rows_that_are_given_are_deleted(broker: Broker, dialect: Mariadb, rows: list[Row]) -> None:
    with writing(dialect) as session:
        session.many("delete_ready", ("queue", "ranking", "position", "seq"), rows)
    left = {int(message.payload) + 1 for message in broker.browse("q", limit=1_000)}
    assert set(range(1, MESSAGES + 1)) - left == {row[3] for row in rows if row[:2] == ("q", 0)}


@pytest.mark.parametrize("seqs", [[2, 3, 4], [2, 4], [4, 3, 2], [2, 4, 4, 5], [3]], ids=str)
def test_exactly_the_leases_that_are_given_are_deleted(broker: Broker, dialect: Mariadb, seqs: list[int]) -> None:
    broker.receive("q", max=10)
    with writing(dialect) as session:
        session.write("delete_leased", seqs=seqs)
    with writing(dialect) as session:
        assert {row[0] for row in session.rows("lock_leased", seqs=list(range(1, 11)))} == set(range(1, 11)) - set(seqs)


def test_a_look_for_ready_messages_does_not_read_them_all(dialect: Mariadb) -> None:
    with dialect.asking() as session:
        counts = reads_of(session, "find_ready", queues=["q", "unknown", "q.dlq"])
    assert sum(counts.values()) < 10


def test_a_look_for_work_does_not_read_it_all(broker: Broker, dialect: Mariadb) -> None:
    broker.send_many("q", range(MESSAGES), delay=0.001)
    with dialect.asking() as session:
        counts = reads_of(session, "find_queues_with_work", now=1 << 60, late=1 << 60)
    assert sum(counts.values()) < 10


def test_a_bad_plan_would_be_seen(dialect: Mariadb) -> None:
    with writing(dialect) as session:
        counts = reads_of(session, "list_ready", queue="q")
    assert counts["next"] >= MESSAGES
