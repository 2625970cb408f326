"""MariaDB and MySQL: any number of processes, on any number of hosts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, ClassVar

import pymysql

from rowq.errors import InvalidArgument, RowqError, StoreBusy, StoreUnavailable
from rowq.store.app_connection import packages_of, refusal
from rowq.store.dialect import Finding, Session
from rowq.store.mariadb.connection import IMPATIENT, Connection, MariadbConnections, checked
from rowq.store.mariadb.doctor import examine, refused_release
from rowq.store.mariadb.driver import Asking, Raw, ask
from rowq.store.mariadb.errors import NEVER_SENT, code_of, is_elsewhere, is_lost, translate
from rowq.store.mariadb.session import JoinedSession, MariadbSession
from rowq.store.mariadb.statement import MariadbQueries
from rowq.store.mariadb.watermark import MariadbWatermark
from rowq.store.retry import TryAgain
from rowq.store.server.dialect import ServerDialect
from rowq.store.server.errors import elsewhere, in_doubt

# Read and rendered once per process, however many brokers it opens.
_queries = cache(MariadbQueries)
_SNAPSHOT = b"START TRANSACTION READ ONLY"
"""The snapshot is taken at the first read. WITH CONSISTENT SNAPSHOT could not read tables that are created in between."""
_MOST_DRAWS = 3
_ACCEPTED = "a connection of PyMySQL or mysqlclient, a Connection or Session of SQLAlchemy on one of these, or Django's connection"


class Mariadb(ServerDialect[Connection]):
    name = "mariadb"
    tidy_every = 10
    parameters: ClassVar[tuple[str, ...]] = (
        *("unix_socket", "ssl_ca", "ssl_cert", "ssl_key", "ssl_key_password"),
        *("ssl_verify_cert", "ssl_verify_identity", "ssl_disabled"),
    )
    """URL parameters besides host, port, user, password and database."""

    def __init__(self, parameters: dict[str, Any], where: str, *, timeout: float) -> None:
        """`where` names the database in messages, without a password."""
        known = checked(parameters)
        super().__init__()
        self.where = where
        self.timeout = timeout
        self._queries = _queries()
        self._writers = MariadbConnections(known, self._queries, self._draw, where=where, timeout=timeout, writing=True)
        self._readers = MariadbConnections(known, self._queries, self._draw, where=where, timeout=timeout, writing=False)
        self._readers.give_back(self._readers.open_at_once())
        self._check_release()

    def begin(self, durable: bool, patient: bool) -> Connection:  # noqa: ARG002  # the server decides what a commit survives
        self.keep_time()
        connection = self._writers.take()
        connection.begin(max(1, int(self.timeout)) if patient else IMPATIENT)
        return connection

    def commit(self, connection: Connection) -> None:
        session = connection.session
        try:
            session.finish(b"COMMIT")
        except BaseException as error:
            is_in_doubt = session.is_ending and session.has_written and is_lost(error) and code_of(error) != NEVER_SENT
            self._let_go(self._writers, connection)
            if not isinstance(error, pymysql.MySQLError):
                raise
            failure = self._failure(error)
            if is_in_doubt:
                failure = in_doubt(self.where)
            raise failure from error
        self._writers.give_back(connection)

    def roll_back(self, connection: Connection, error: BaseException) -> None:
        self._let_go(self._writers, connection)
        if isinstance(error, pymysql.MySQLError):
            raise self._failure(error) from error

    @contextmanager
    def reading(self) -> Iterator[Session]:
        with self.asking() as session:
            session.begin(_SNAPSHOT)
            yield session
            if not session.is_amid:
                session.finish(b"COMMIT")

    @contextmanager
    def joining(self, connection: Any) -> Iterator[Session]:
        session = JoinedSession(connection, self._queries, self._draw, self._asking_of(connection))
        try:
            self._check_joinable(connection, session)
            identity = session.join()
        except pymysql.MySQLError as error:
            if is_elsewhere(error):
                raise elsewhere(self.where) from error
            raise translate(error, self.where) from error
        if identity != self.identity():
            raise elsewhere(self.where)
        try:
            with session.savepoint():
                yield session
        except pymysql.MySQLError as error:
            raise translate(error, self.where) from error

    @contextmanager
    def migrating(self) -> Iterator[Session]:
        """Every statement commits by itself, so an interrupted migration is run again from its beginning."""
        with self.asking() as session:
            if session.rows("lock_migrations", seconds=int(self.timeout))[0][0] != 1:
                raise StoreBusy(f"another process is creating the tables at {self.where}: try again in a moment")
            try:
                yield session
            finally:
                session.rows("unlock_migrations")

    def watermark(self) -> MariadbWatermark:
        return MariadbWatermark(self.asking, self.timeout)

    def tidy(self, *, thoroughly: bool) -> None:  # noqa: ARG002  # InnoDB clears up by itself
        self.keep_time()

    def examine(self) -> list[Finding]:
        with self.asking() as session:
            return examine(session)

    def leave_to_parent(self) -> None:
        self._writers.leave_to_parent()
        self._readers.leave_to_parent()

    def hurry(self) -> None:
        self._writers.hurry()
        self._readers.hurry()

    def close(self) -> None:
        self._writers.close()
        self._readers.close()

    @contextmanager
    def asking(self) -> Iterator[MariadbSession]:
        """A session in which every statement is a transaction of its own."""
        connection = self._readers.take()
        connection.session.begin()
        try:
            yield connection.session
        except BaseException as error:
            self._let_go(self._readers, connection)
            if isinstance(error, pymysql.MySQLError):
                raise self._failure(error) from error
            raise
        if connection.session.is_amid:
            connection.close()  # unread rows are still on their way
        else:
            self._readers.give_back(connection)

    def _let_go(self, connections: MariadbConnections, connection: Connection) -> None:
        """Rolls back. This is needed after a lock timeout too, which ends only the statement and not its transaction."""
        if connection.rolls_back():
            connections.give_back(connection)
        else:
            connection.close()

    def _failure(self, error: pymysql.MySQLError) -> RowqError:
        if is_lost(error):
            self._writers.forget_idle()
            self._readers.forget_idle()
        return translate(error, self.where)

    def _draw(self, count: int) -> int:
        """On a connection of its own, so that producers do not wait for each other's commits. Numbers that are lost leave harmless gaps."""
        for _ in range(_MOST_DRAWS - 1):
            with suppress(TryAgain):
                return self._draw_once(count)
        return self._draw_once(count)

    def _draw_once(self, count: int) -> int:
        with self.asking() as session:
            return session.draw_last(count) - count + 1

    def _check_release(self) -> None:
        with self.asking() as session:
            refused = refused_release(session.rows("read_release")[0][0])
        if refused:
            self.close()
            raise StoreUnavailable(f"{refused} [{self.where}]")

    def _asking_of(self, connection: Raw) -> Asking:
        """The function that sends statements on an application's connection, chosen by its driver."""
        if isinstance(connection, pymysql.Connection):
            return ask
        if "MySQLdb" in packages_of(connection) and hasattr(connection, "next_result"):
            from rowq.store.mariadb.mysqlclient import ask as ask_by_mysqlclient

            return ask_by_mysqlclient
        raise refusal(connection, _ACCEPTED, self.where)

    def _check_joinable(self, connection: Raw, session: JoinedSession) -> None:
        if not connection.open:
            raise StoreUnavailable("this connection is closed")
        if connection.character_set_name() != "utf8mb4":
            raise InvalidArgument("within() needs a connection with charset='utf8mb4': give that to its driver, or to its URL")
        if connection.get_autocommit() and not session.has_transaction():
            raise InvalidArgument("this connection has no open transaction: call connection.begin() first, or turn autocommit off")
