"""The guide tells what is so: its SQL runs, its lists are complete, and the rights that it grants are enough."""

from __future__ import annotations

import re
from uuid import uuid4

import psycopg
import pytest

import rowq
from rowq.connect import install_peq
from tests.compat.peq.sql import Sql
from tests.docs.page import ROOT, page

GUIDE = page("docs/guide/peq.md")
BLOCKS = [block.text for block in GUIDE.blocks if block.text.startswith(("CALL", "UPDATE"))]
RIGHTS = next(block.text for block in GUIDE.blocks if block.text.startswith("GRANT"))
DATABASES = next(block.text for block in page("docs/guide/databases.md").blocks if block.text.startswith("CREATE ROLE"))


@pytest.fixture
def orders(url: str, sql: Sql) -> Sql:
    install_peq(url, "orders")
    sql.schema = "orders"
    return sql


def code(cells: list[list[str]]) -> list[str]:
    return [found[1] for cell in cells if (found := re.search(r"`([^`]+)`", cell[0]))]


def test_its_sql_runs(orders: Sql, url: str) -> None:
    assert len(BLOCKS) == 2
    for block in BLOCKS:
        orders.connection.execute(block.encode())
    assert [line[0] for line in orders.audit()] == [1, 2, 1, 2, 3]
    with rowq.connect(url, maintenance=False) as broker:
        assert broker.policy("orders").lease_ms == 60_000
        assert broker.stats("orders").leased == 1


def test_every_setting_is_listed_as_it_is_at_first(orders: Sql) -> None:
    shown = [(name.strip("`"), first, unit) for name, first, unit, _ in GUIDE.table("setting_name")]
    assert shown == orders("SELECT setting_name, setting_value, unit FROM orders.queue_configuration")


def test_every_view_and_every_call_is_listed(orders: Sql) -> None:
    views = {row[0] for row in orders("SELECT viewname FROM pg_views WHERE schemaname = 'orders'")}
    assert set(code(GUIDE.table("view"))) == views
    named = """
        SELECT proname, proargnames[1:pronargs] FROM pg_proc
        WHERE pronamespace = 'orders'::REGNAMESPACE AND proname NOT LIKE 'rowq%' AND proname <> 'made_by_rowq'
    """
    calls = {f"{name}({', '.join(arguments or ())})" for name, arguments in orders(named)}
    assert {call.removeprefix("CALL ").removeprefix("SELECT * FROM ") for call in code(GUIDE.table("call"))} == calls


def test_every_code_is_listed(orders: Sql) -> None:
    sources = [(ROOT / f"src/rowq/store/sql/peq/{file}.sql").read_text(encoding="utf-8") for file in ("verbs", "views")]
    raised = {name for source in sources for name in re.findall(r"RAISE (\w+) USING", source)}
    codes = {name: getattr(psycopg.errors, "".join(word.title() for word in name.split("_"))).sqlstate for name in raised}
    assert {row[0] for row in GUIDE.table("SQLSTATE")} == set(codes.values())


def test_the_rights_are_enough_and_a_reader_needs_few(orders: Sql) -> None:
    name, reader = f"shop_{uuid4().hex}", f"reader_{uuid4().hex}"
    try:
        orders.connection.execute(DATABASES.replace("shop", name).encode())
        orders.connection.execute(RIGHTS.replace("shop", name).encode())
        orders(f"SET ROLE {name}")
        orders.enqueue(1)
        orders.ack(orders.dequeue()[0])
        orders.set("max_retries", 3)
        orders("RESET ROLE")
        orders(f"CREATE ROLE {reader}")
        orders.connection.execute("".join(RIGHTS.splitlines(keepends=True)[:2]).replace("shop", reader).encode())
        orders(f"SET ROLE {reader}")
        assert len(orders.audit()) == 3
        assert len(orders("SELECT * FROM orders.message_history")) == 1
        assert orders("SELECT * FROM orders.dead_letter") == orders("SELECT * FROM orders.message_queue") == []
        for forbidden in ("CALL orders.enqueue('1')", "SELECT * FROM orders.queue_configuration"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                orders(forbidden)
    finally:
        orders("RESET ROLE")
        for role in (name, reader):
            orders(f"DROP OWNED BY {role}")
            orders(f"DROP ROLE {role}")
