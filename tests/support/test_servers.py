"""The servers that tests talk to: they start, keep their data, come back after a crash, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pymysql
import pytest
import redis

from tests.support.asking import ask, connection_to
from tests.support.patience import eventually
from tests.support.servers import (
    OwnServer,
    Server,
    own_mariadb,
    own_pgbouncer,
    own_postgresql,
    own_redis,
    shared_mariadb,
    shared_postgresql,
    shared_redis,
)
from tests.support.servers import postgresql as postgresql_server
from tests.support.servers import server as own_server
from tests.support.servers import shared as shared_servers
from tests.support.servers.process import Account, Process

pytestmark = pytest.mark.prove("servers started and ended for their own sake; every test that uses one stands for it")

Own = Callable[..., OwnServer]
Shared = Callable[[], Server]

every_own = pytest.mark.parametrize("own", [own_postgresql, own_mariadb])
every_shared = pytest.mark.parametrize("shared", [shared_postgresql, shared_mariadb])
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as somebody else")

refused = pytest.raises((psycopg.OperationalError, pymysql.err.OperationalError))


@every_shared
def test_a_database_can_be_made_and_dropped(shared: Shared) -> None:
    server = shared()
    name = f"made_{os.getpid()}"
    server.create_database(name)
    assert ask(server.url(name), "CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (7)", "SELECT n FROM t") == [(7,)]
    server.drop_database(name)
    with refused:
        ask(server.url(name), "SELECT 1")


@every_shared
def test_a_database_is_dropped_under_those_who_use_it(shared: Shared) -> None:
    server = shared()
    name = f"used_{os.getpid()}"
    server.create_database(name)
    with closing(connection_to(server.url(name))) as user:
        server.drop_database(name)
        with pytest.raises((psycopg.Error, pymysql.MySQLError)):
            user.cursor().execute("CREATE TABLE t (n INTEGER)")


@every_own
def test_a_restart_keeps_the_data_and_the_address(own: Own, tmp_path: Path) -> None:
    with own(tmp_path) as server:
        server.create_database("d")
        url, pid = server.url("d"), server.pid
        ask(url, "CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (7)")
        server.stop()
        assert not server.is_running
        with refused:
            ask(url, "SELECT 1")
        server.start()
        assert server.pid != pid
        assert ask(url, "SELECT n FROM t") == [(7,)]


@every_own
def test_a_kill_in_the_middle_loses_only_what_was_not_committed(own: Own, tmp_path: Path) -> None:
    with own(tmp_path) as server:
        server.create_database("d")
        ask(server.url("d"), "CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (7)")
        with closing(connection_to(server.url("d"))) as connection:
            cursor = connection.cursor()
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO t VALUES (8)")
            server.kill()
            with pytest.raises((psycopg.OperationalError, pymysql.err.OperationalError)):
                cursor.execute("COMMIT")
        server.start()
        assert ask(server.url("d"), "SELECT n FROM t") == [(7,)]


@every_own
def test_a_server_that_was_closed_leaves_nothing_behind(own: Own, tmp_path: Path) -> None:
    with own(tmp_path) as server:
        process = Process.of(server.pid)
        assert server.data.exists()
    assert not process.is_running
    assert not server.data.exists()
    assert not server.place.exists()


def test_settings_are_the_callers(tmp_path: Path) -> None:
    with own_postgresql(tmp_path, fsync=True, work_mem="7MB") as server:
        assert [ask(server.url("postgres"), f"SHOW {name}") for name in ("fsync", "work_mem", "max_connections")] == [
            [("on",)],
            [("7MB",)],
            [("300",)],
        ]


def test_mariadb_has_a_character_set_that_cannot_hold_our_texts(tmp_path: Path) -> None:
    with own_mariadb(tmp_path) as server:
        server.create_database("d")
        assert ask(server.url("d"), "SELECT @@character_set_database, @@collation_database") == [("latin1", "latin1_swedish_ci")]


def test_a_wrong_password_is_refused_over_tcp(tmp_path: Path) -> None:
    with own_postgresql(tmp_path) as server:
        assert ask(server.tcp_url("postgres"), "SELECT 1") == [(1,)]
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            ask(server.tcp_url("postgres").replace("secret", "wrong"), "SELECT 1")


def test_a_pooler_stands_before_a_server_and_gives_transactions_any_connection(tmp_path: Path) -> None:
    with own_postgresql(tmp_path) as server, own_pgbouncer(server, default_pool_size=1) as pooler:
        with closing(connection_to(pooler.url("postgres"))) as one, closing(connection_to(pooler.url("postgres"))) as other:
            backends = [connection.execute("SELECT pg_backend_pid()").fetchone() for connection in (one, other)]
        assert backends[0] == backends[1]


def test_redis_answers_forgets_and_comes_back(tmp_path: Path) -> None:
    with own_redis(tmp_path) as server, closing(redis.Redis.from_url(server.url())) as client:
        client.set("name", "value")
        assert client.get("name") == b"value"
        server.kill()
        with pytest.raises(redis.ConnectionError):
            client.get("name")
        server.start()
        assert client.get("name") is None


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"unrecognized configuration parameter .*frobnicate"):
        own_postgresql(tmp_path, frobnicate=1)


def test_a_port_that_was_taken_meanwhile_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1], own_server.free_port()])
        monkeypatch.setattr(own_server, "free_port", lambda: next(ports))
        with own_redis(tmp_path) as server:
            assert server.port != taken.getsockname()[1]
            assert server.join(server.address()).pid == server.pid


def test_a_pid_that_somebody_else_has_now_is_left_alone(tmp_path: Path) -> None:
    with own_redis(tmp_path) as server:
        earlier = Process(server.pid, born=Process.of(server.pid).born - 60)
        earlier.kill()
        earlier.send(signal.SIGKILL)
        assert not earlier.is_running
        assert server.is_running


def test_a_server_that_ended_by_itself_is_not_running_and_starts_again(tmp_path: Path) -> None:
    with own_redis(tmp_path) as server:
        os.kill(server.pid, signal.SIGKILL)
        eventually(lambda: not server.is_running)
        with pytest.raises(RuntimeError, match="not running"):
            assert server.pid
        server.start()
        assert server.is_running


@as_root
def test_root_runs_a_server_as_somebody_else_even_where_only_root_gets_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    programs = postgresql_server._programs(postgresql_server.NEWEST)
    postgresql_server.open_copy(programs, tmp_path / "home")
    closed = tmp_path / "home" / programs.relative_to(programs.parents[2])
    monkeypatch.setattr(postgresql_server, "_programs", lambda version: closed)
    postgresql_server._runnable_programs.cache_clear()
    try:
        with own_postgresql(tmp_path) as server:
            assert ask(server.url("postgres"), "SELECT 1") == [(1,)]
            assert not Account.first_of("nobody").can_run(str(closed / "postgres"), "--version")
            assert Path(f"/proc/{server.pid}").stat().st_uid != 0
    finally:
        postgresql_server._runnable_programs.cache_clear()


def test_a_server_that_the_user_gives_is_used_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(shared_servers.GIVEN["postgresql"], shared_postgresql().home)
    shared_postgresql.cache_clear()
    try:
        given = shared_postgresql()
        assert not isinstance(given, OwnServer)
        name = f"given_{os.getpid()}"
        given.create_database(name)
        assert ask(given.url(name), "SELECT current_database()") == [(name,)]
        given.drop_database(name)
    finally:
        shared_postgresql.cache_clear()


def test_one_process_gets_the_same_shared_server_each_time() -> None:
    assert shared_redis() is shared_redis()
