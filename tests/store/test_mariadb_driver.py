"""The private names of PyMySQL that rowq relies on (decision 41). If a test fails after an upgrade of PyMySQL, bring
`rowq/store/mariadb/driver.py` up to date before the version bound in pyproject.toml is raised."""

from __future__ import annotations

import ast
import inspect
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pymysql._auth
import pytest
from pymysql.cursors import Cursor
from pymysql.protocol import MysqlPacket

import rowq
from rowq import StoreUnavailable
from rowq.store import mariadb
from rowq.store.mariadb import connection as connecting
from rowq.store.mariadb.dialect import Mariadb
from rowq.store.mariadb.driver import ask, stream
from tests.support.database import MariadbDatabase

PRIVATE = {"_execute_command", "_read_packet", "_secure", "_read_timeout"}
CONNECTIONS = {"raw", "_raw", "connection"}
"""What a connection of the driver is called in rowq's modules."""
HANDSHAKE = 0.3


@pytest.fixture
def raw() -> Iterator[Any]:
    opened = MariadbDatabase().connection()
    yield opened
    opened.close()


def test_only_one_module_uses_private_names_of_the_driver() -> None:
    folder = Path(mariadb.__file__).parent
    used = {path.name: _private_names(ast.parse(path.read_text(encoding="utf-8"))) for path in folder.glob("*.py")}
    assert {name: names for name, names in used.items() if names} == {"driver.py": PRIVATE}


def _private_names(tree: ast.Module) -> set[str]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith("_")]
    return {node.attr for node in found if getattr(node.value, "id", getattr(node.value, "attr", "")) in CONNECTIONS}


def test_the_driver_sends_and_reads_by_these_names() -> None:
    driver: Any = pymysql.Connection
    assert [*inspect.signature(driver._execute_command).parameters] == ["self", "command", "sql"]
    assert inspect.signature(driver._read_packet).parameters["packet_type"].default is MysqlPacket
    packet: Any = MysqlPacket(b"data", "utf8")
    assert packet.get_all_data() == b"data"


def test_the_driver_takes_a_socket_for_secure_by_this_name() -> None:
    driver: Any = pymysql.Connection
    auth: Any = pymysql._auth
    assert driver._secure is False
    for plugin in (auth.caching_sha2_password_auth, auth.sha256_password_auth):
        assert "_secure" in plugin.__code__.co_names


def test_an_answer_may_take_longer_than_the_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_CONNECT_TIMEOUT", HANDSHAKE)
    with rowq.connect(MariadbDatabase().url, maintenance=False) as broker:
        dialect = broker._engine.dialect
        assert isinstance(dialect, Mariadb)
        with dialect.asking() as session:
            assert session._ask(b"SELECT SLEEP(%.1f)" % (2 * HANDSHAKE)).rows == [(0,)]


def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_CONNECT_TIMEOUT", HANDSHAKE)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(StoreUnavailable, match="timed out"):
        rowq.connect(f"mariadb://rowq:secret@127.0.0.1:{silent.getsockname()[1]}/rowq")


@pytest.mark.parametrize(
    "values",
    [
        "1, -1, 18446744073709551615, TRUE, NULL, ''",
        "'text', 'ö😀', _binary'\\0\\'', X'00FF', CAST('x' AS CHAR), CAST('x' AS BINARY)",
        "1.5, 1e10, CAST(1 AS DOUBLE), CAST(2.50 AS DECIMAL(10,2))",
        "(SELECT SUM(n) FROM (SELECT 1 AS n UNION ALL SELECT 2) AS numbers), COUNT(*), MAX(NULL)",
        *(f"REPEAT('x', {length}), REPEAT('ö', {length}), 7" for length in (250, 251, 252, 65_535, 65_536)),
    ],
)
def test_an_answer_reads_as_the_driver_reads_it(raw: Any, values: str) -> None:
    cursor = raw.cursor(Cursor)
    statement = f"SELECT {values} UNION ALL SELECT {values}"
    cursor.execute(statement)
    expected = [*cursor.fetchall()]
    assert len(expected) == 2
    assert ask(raw, [statement.encode()]).rows == expected
    assert [*stream(raw, statement.encode())] == expected


def test_an_application_may_use_its_connection_before_and_after_us(raw: Any) -> None:
    cursor = raw.cursor(Cursor)
    cursor.execute("SELECT 1 UNION SELECT 2")
    assert ask(raw, [b"SELECT 3"]).rows == [(3,)]
    assert cursor.fetchall() == ((1,), (2,))
    cursor.execute("SELECT 4")
    assert cursor.fetchall() == ((4,),)
