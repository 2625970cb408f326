"""Connections to MariaDB and MySQL, for writing and for reading."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from rowq.clock import running
from rowq.errors import InvalidArgument
from rowq.store.mariadb.driver import Raw, ask, connect
from rowq.store.mariadb.errors import may_pass, refusal
from rowq.store.mariadb.session import MariadbSession
from rowq.store.mariadb.statement import MariadbQueries
from rowq.store.server.connections import Connections, Refused

IMPATIENT = 1
"""How many seconds an impatient transaction waits for a row that another one has locked: the minimum that the server allows."""
_WAIT_TIMEOUT = 60
"""Seconds after which the server closes a silent connection and releases its locks: its process may be gone."""
_IDLE_FOR_LONG = 45.0
_CONNECT_TIMEOUT = 10.0
_PORT = 3306
_SWITCHES = {"ssl_verify_cert", "ssl_verify_identity", "ssl_disabled"}
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_FLAGS = CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS
"""Count matched rows, even if an update does not change them; and allow several statements in one packet."""

# Values are quoted for this sql_mode, whatever the server's own is. Only MariaDB reads the comment, with settings that MySQL does not have.
_RULES = "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00'"
_WRITING = f"""\
SET SESSION {_RULES}, autocommit = 0, sql_safe_updates = 1, innodb_lock_wait_timeout = {IMPATIENT}, lock_wait_timeout = {{timeout}},
wait_timeout = {_WAIT_TIMEOUT} /*M! , idle_transaction_timeout = 30, in_predicate_conversion_threshold = 0 */;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"""
"""Safe updates: a list of keys is looked up by the index, however small the table, and never by a scan that waits for locks. The threshold
keeps it a list: MariaDB would turn a thousand keys into a table and might scan ours from its beginning (a fifth of the time of a large
ack)."""
_READING = f"""\
SET SESSION {_RULES}, autocommit = 1, sql_safe_updates = 1, lock_wait_timeout = {{timeout}}, wait_timeout = 3600, net_write_timeout = 3600;
SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"""
"""Long timeouts: a caller that iterates over many messages may take a while for each; nothing is locked meanwhile."""


class Connection:
    """A connection with its session, which it keeps from transaction to transaction."""

    def __init__(self, raw: Raw, descriptor: int, session: MariadbSession) -> None:
        self.raw = raw
        self.session = session
        self.used_at = running()
        self._descriptor = descriptor
        self._lock_wait = IMPATIENT

    @property
    def is_usable(self) -> bool:
        """If an idle connection is readable, the server has closed it."""
        return self.raw.open and running() - self.used_at < _IDLE_FOR_LONG and not _is_readable(self._descriptor)

    def begin(self, lock_wait: int) -> MariadbSession:
        """The next statement begins a transaction."""
        if lock_wait == self._lock_wait:
            self.session.begin()
        else:
            self.session.begin(b"SET SESSION innodb_lock_wait_timeout = %d" % lock_wait)
            self._lock_wait = lock_wait
        return self.session

    def rolls_back(self) -> bool:
        """False if the connection is no longer usable."""
        if not self.session.has_spoken:
            self._lock_wait = 0  # the SET statement was never sent
            return True
        if self.session.is_amid:
            return False
        try:
            ask(self.raw, [b"ROLLBACK"])
        except pymysql.MySQLError:
            return False
        return True

    def close(self) -> None:
        with suppress(pymysql.MySQLError):
            self.raw.close()


class MariadbConnections(Connections[Connection]):
    """`draw` returns the first of the given number of new seqs."""

    def __init__(
        self, parameters: dict[str, Any], queries: MariadbQueries, draw: Callable[[int], int], *, where: str, timeout: float, writing: bool
    ) -> None:
        super().__init__(where, timeout)
        self._parameters = parameters
        self._queries = queries
        self._draw = draw
        settings = (_WRITING if writing else _READING).format(timeout=max(1, int(timeout)))
        self._settings = settings.encode().split(b";")

    def give_back(self, connection: Connection) -> None:
        connection.used_at = running()
        super().give_back(connection)

    def _open(self) -> Connection:
        try:
            raw: Raw = pymysql.connect(**_known_to_the_driver(self._parameters), defer_connect=True)
            opened = _socket(self._parameters, self._timeout)
            descriptor = opened.fileno()
            connect(raw, opened)
            ask(raw, self._settings)
            session = MariadbSession(raw, self._queries, self._draw)
            session.learn_limits()
        except (pymysql.MySQLError, OSError, RuntimeError) as error:  # RuntimeError: a package for the server's authentication is missing
            raise Refused(refusal(error, self.where), may_pass=may_pass(error)) from error
        return Connection(raw, descriptor, session)


def checked(parameters: dict[str, Any]) -> dict[str, Any]:
    """Converts a URL's parameters to the driver's."""
    if not parameters.get("database"):
        raise InvalidArgument("the URL names no database: mariadb://user:password@host/database")
    known = dict(parameters)
    for name in _SWITCHES & set(known):
        if (text := str(known[name]).lower()) not in _BOOLEANS:
            raise InvalidArgument(f"{name} must be true or false, not {known[name]!r}")
        known[name] = _BOOLEANS[text]
    if "password" in known:
        known["password"] = known["password"].encode()  # text would be sent as Latin-1
    if "ssl_ca" in known:
        known.setdefault("ssl_verify_cert", True)  # otherwise the driver accepts any certificate
    if "unix_socket" in known and not any(name.startswith("ssl_") for name in known):
        known["ssl_disabled"] = True  # a local socket cannot be intercepted
    return known


def _known_to_the_driver(parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "read_timeout": _CONNECT_TIMEOUT,
        "charset": "utf8mb4",
        "autocommit": None,
        "client_flag": _FLAGS,
        "program_name": "rowq",
        **{name: value for name, value in parameters.items() if name != "unix_socket"},
    }


def _socket(parameters: dict[str, Any], timeout: float) -> socket.socket:
    """Replaces the driver's socket, which takes hours to notice that the other host is gone."""
    path = parameters.get("unix_socket")
    if path is not None:
        opened = socket.socket(socket.AF_UNIX)
        try:
            opened.connect(path)
        except OSError:
            opened.close()
            raise
        return opened
    opened = socket.create_connection((parameters.get("host", "localhost"), parameters.get("port", _PORT)), _CONNECT_TIMEOUT)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": int(max(timeout, 10) * 1000)}.items():
        if hasattr(socket, name):  # not every system has all of them
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return opened


def _is_readable(descriptor: int) -> bool:
    if not hasattr(select, "poll"):
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
