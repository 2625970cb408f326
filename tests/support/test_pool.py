"""Databases that are lent to one test after the other: each time as new, whatever the one before did to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pymysql
import pytest

import rowq
from tests.support.asking import ask, connection_to
from tests.support.servers import OwnServer, Server, fresh, give_back, own_mariadb, own_postgresql, shared_mariadb, shared_postgresql
from tests.support.servers.pool import Pool, give_back_all
from tests.support.servers.shared import GivenMariadb, GivenPostgresql

COUNTERS = [("seq", 0), ("settings", 0)]


def install(url: str) -> None:
    """A few tables as rowq's are: with rows from the start, and with numbers that the database gives."""
    is_postgresql = url.startswith("postgresql://")
    number = "BIGINT GENERATED ALWAYS AS IDENTITY" if is_postgresql else "BIGINT AUTO_INCREMENT"
    ask(
        url,
        *(["CREATE SCHEMA rowq"] if is_postgresql else []),
        f"CREATE TABLE {table('counters', url)} (name VARCHAR(20) PRIMARY KEY, value BIGINT NOT NULL)",
        f"INSERT INTO {table('counters', url)} VALUES ('seq', 0), ('settings', 0)",
        f"CREATE TABLE {table('audit', url)} (id {number} PRIMARY KEY, event VARCHAR(2000))",
        f"CREATE TABLE {table('ready', url)} (seq BIGINT PRIMARY KEY)",
    )


def table(name: str, url: str) -> str:
    return f"rowq.rowq_{name}" if url.startswith("postgresql://") else f"rowq_{name}"


def use(url: str) -> None:
    """What a test does."""
    ask(
        url,
        f"UPDATE {table('counters', url)} SET value = 40",
        f"INSERT INTO {table('ready', url)} VALUES (1), (2)",
        f"INSERT INTO {table('audit', url)} (event) VALUES ('sent'), ('acked')",
        "CREATE TABLE orders (name VARCHAR(20))",
    )


def assert_new(url: str) -> None:
    assert ask(url, f"SELECT * FROM {table('counters', url)} ORDER BY name") == COUNTERS
    assert ask(url, f"SELECT * FROM {table('ready', url)}") == []
    assert ask(url, "CREATE TABLE orders (name VARCHAR(20))") == []
    assert ask(url, f"INSERT INTO {table('audit', url)} (event) VALUES ('sent')", f"SELECT id FROM {table('audit', url)}") == [(1,)]


@pytest.fixture(params=[shared_postgresql, shared_mariadb])
def server(request: pytest.FixtureRequest) -> Server:
    server: Server = request.param()
    return server


@pytest.fixture
def pool(server: Server) -> Iterator[Pool]:
    pool = Pool(server, install)
    yield pool
    pool.close()


def test_a_database_is_as_new_each_time(pool: Pool) -> None:
    first = pool.lend()
    for _ in range(3):
        use(first)
        pool.take_back(first)
        assert pool.lend() == first
        assert_new(first)
        ask(first, "DROP TABLE orders")


def test_a_database_that_has_grown_is_as_new_too(pool: Pool) -> None:
    url = pool.lend()
    with closing(connection_to(url)) as connection:
        rows = [("x" * 1000,)] * 500
        connection.cursor().executemany(f"INSERT INTO {table('audit', url)} (event) VALUES (%s)", rows)
    pool.take_back(url)
    assert pool.lend() == url
    assert_new(url)


def test_whoever_wants_two_at_once_gets_two(pool: Pool) -> None:
    one, other = pool.lend(), pool.lend()
    use(one)
    assert_new(other)
    pool.take_back_all()
    assert {pool.lend(), pool.lend()} == {one, other}


def test_a_connection_that_was_forgotten_holds_nobody_up(pool: Pool) -> None:
    url = pool.lend()
    with closing(connection_to(url)) as forgotten:
        cursor = forgotten.cursor()
        cursor.execute("BEGIN")
        cursor.execute(f"UPDATE {table('counters', url)} SET value = 1")
        pool.take_back(url)
        assert pool.lend() == url
        assert_new(url)
        with pytest.raises((psycopg.OperationalError, pymysql.err.OperationalError)):
            cursor.execute("COMMIT")


def test_a_database_without_one_of_its_tables_is_not_lent_again(pool: Pool) -> None:
    url = pool.lend()
    ask(url, f"DROP TABLE {table('ready', url)}")
    pool.take_back(url)
    another = pool.lend()
    assert another != url
    assert_new(another)


@pytest.mark.parametrize("own", [own_postgresql, own_mariadb])
def test_a_restart_of_the_server_costs_one_database(own: Callable[[Path], OwnServer], tmp_path: Path) -> None:
    with own(tmp_path) as server:
        pool = Pool(server, install)
        pool.take_back(pool.lend())
        server.restart()
        assert_new(pool.lend())
        pool.close()


def test_databases_on_a_server_that_the_user_gave_are_dropped_in_the_end(server: Server) -> None:
    given = (GivenMariadb if server.name == "MariaDB" else GivenPostgresql)(server.url("mysql" if server.name == "MariaDB" else "postgres"))
    pool = Pool(given, install)
    url = pool.lend()
    use(url)
    pool.close()
    with pytest.raises((psycopg.OperationalError, pymysql.err.OperationalError)):
        ask(url, "SELECT 1")


def test_a_fresh_database_is_ready_for_messages(server: Server) -> None:
    urls = set()
    for _ in range(2):
        url = fresh(server)
        with rowq.connect(url) as broker:
            assert broker.queues() == []
            broker.send("q", "hello")
            assert [delivery.payload for delivery in broker.receive("q")] == ["hello"]
        give_back(url)
        urls.add(url)
    assert len(urls) == 1


def test_a_database_comes_back_when_its_test_is_over(server: Server) -> None:
    one = fresh(server)
    assert fresh(server) != one
    give_back_all()  # what happens after each test
    assert one in {fresh(server), fresh(server)}
