"""MariaDB from the system's packages, on data, a socket and a port of our own; the system's service is left alone."""

from __future__ import annotations

import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql
import pymysql.cursors
from pymysql.constants import CR

from tests.support.servers.server import OwnServer, Server, Setting, program

_USER = "rowq"
_PASSWORD = "secret"  # noqa: S105  # of a server that lives as long as the tests
_FIRST_WORDS = f"""\
CREATE USER IF NOT EXISTS '{_USER}'@'%' IDENTIFIED BY '{_PASSWORD}';
GRANT ALL PRIVILEGES ON *.* TO '{_USER}'@'%' WITH GRANT OPTION;
"""


class MariadbDatabases(Server):
    """What MariaDB can do wherever it runs."""

    name = "MariaDB"

    def create_database(self, name: str) -> None:
        with connected(self.url("")) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{name}`")

    def drop_database(self, name: str) -> None:
        with connected(self.url("")) as connection, connection.cursor() as cursor:
            cut_off(cursor, name)
            cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")


class MariadbServer(MariadbDatabases, OwnServer):
    """Reached by its socket (`url`) and by TCP (`tcp_url`), by a user who may do everything."""

    accounts = ("mysql", "nobody")
    stop_signal = signal.SIGTERM
    tuned: ClassVar[Mapping[str, Setting]] = {
        "innodb_flush_log_at_trx_commit": 2,  # survives a kill, not a power cut
        "max_connections": 300,
        # What a user may have who installed it long ago: it cannot hold our texts unless we say utf8mb4 ourselves.
        "character_set_server": "latin1",
        "collation_server": "latin1_swedish_ci",
        "default_time_zone": "-03:30",
    }

    @classmethod
    def check(cls) -> None:
        program("mariadbd", "mariadb-server")
        program("mariadb-install-db", "mariadb-server")

    def url(self, database: str) -> str:
        return f"{self.tcp_url(database)}?unix_socket={self.place / 'socket'}"

    def tcp_url(self, database: str) -> str:
        return f"mariadb://{_USER}:{_PASSWORD}@127.0.0.1:{self.port}/{database}"

    def _install(self) -> None:
        first_words = self.place / "first-words.sql"
        first_words.write_text(_FIRST_WORDS, encoding="utf-8")
        first_words.chmod(0o644)
        self.account.run(
            [
                program("mariadb-install-db", "mariadb-server"),
                "--no-defaults",
                f"--datadir={self.data}",
                f"--tmpdir={self.place}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
            ]
        )

    def _command(self) -> list[str]:
        where = {
            "datadir": self.data,
            "socket": self.place / "socket",
            "pid-file": self.place / "pid",
            "tmpdir": self.place,  # one that starts removes what others have in theirs
            "port": self.port,
            "bind-address": "127.0.0.1",
            "init-file": self.place / "first-words.sql",
            **{name.replace("_", "-"): _in_text(value) for name, value in self.settings.items()},
        }
        return [
            program("mariadbd", "mariadb-server"),
            "--no-defaults",
            "--skip-name-resolve",
            *(f"--{name}={value}" for name, value in where.items()),
        ]

    def _answers(self) -> bool:
        try:
            connected(self.url("")).close()
        except pymysql.err.OperationalError:
            return False
        return True


def own_mariadb(folder: Path | None = None, **settings: Setting) -> MariadbServer:
    """A private one: `with own_mariadb(tmp_path, innodb_flush_log_at_trx_commit=1) as server`."""
    return MariadbServer.begin(folder, settings)


def connected(url: str, *, autocommit: bool = True, **options: Any) -> pymysql.Connection[Any]:
    """PyMySQL takes no URLs."""
    parts = urlsplit(url)
    path = dict(parse_qsl(parts.query)).get("unix_socket")
    connection = pymysql.connect(
        host=parts.hostname or "localhost",
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=unquote(parts.path[1:]) or None,
        charset="utf8mb4",
        autocommit=autocommit,
        defer_connect=True,
        **options,
    )
    connection.connect(_socket_at(path) if path else None)
    return connection


def _socket_at(path: str) -> socket.socket:
    """PyMySQL would leave it open where nobody listens."""
    opened = socket.socket(socket.AF_UNIX)
    try:
        opened.connect(path)
    except OSError as error:
        opened.close()
        raise pymysql.err.OperationalError(CR.CR_CONNECTION_ERROR, f"nobody listens at {path} ({error})") from error
    return opened


def cut_off(cursor: pymysql.cursors.Cursor, database: str) -> None:
    """Ends the connections to a database, except this one."""
    cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s AND id <> CONNECTION_ID()", (database,))
    for (id,) in cursor.fetchall():
        with suppress(pymysql.err.OperationalError):  # it has just ended by itself
            cursor.execute(f"KILL {id}")


def _in_text(value: Setting) -> str:
    return {True: "ON", False: "OFF"}[value] if isinstance(value, bool) else str(value)
