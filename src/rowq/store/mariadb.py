"""MariaDB and MySQL: any number of processes, on any number of hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, ClassVar

import pymysql
from pymysql.constants import SERVER_STATUS

from rowq.clock import SharedClock, running
from rowq.errors import InvalidArgument, OutcomeUnknown, RowqError, StoreBusy, StoreUnavailable
from rowq.store.dialect import Dialect, Finding, Session
from rowq.store.mariadb_answer import Raw
from rowq.store.mariadb_connection import IMPATIENT, Connection, MariadbConnections, checked
from rowq.store.mariadb_error import NEVER_SENT, code_of, is_elsewhere, is_lost, translate
from rowq.store.mariadb_examination import examine, refused_release
from rowq.store.mariadb_session import JoinedSession, MariadbSession
from rowq.store.mariadb_statement import MariadbQueries
from rowq.store.retrying import TryAgain

_SNAPSHOT = b"START TRANSACTION READ ONLY"
"""Of the moment of the first look at a table. A snapshot from the very beginning could not read tables that are made in between."""
_LEARN_EVERY = 60.0
"""Seconds between two looks at the database's clock."""
_MOST_DRAWS = 3


class Mariadb(Dialect):
    name = "mariadb"
    has_one_writer = False
    settings_max_age_ms = 1_000
    tidy_every = 10
    parameters: ClassVar[tuple[str, ...]] = (
        *("unix_socket", "ssl_ca", "ssl_cert", "ssl_key", "ssl_key_password"),
        *("ssl_verify_cert", "ssl_verify_identity", "ssl_disabled"),
    )
    """What a URL may say beside host, port, user, password and database."""

    def __init__(self, parameters: dict[str, Any], where: str, *, timeout: float) -> None:
        """`where` names the database in messages, without a password."""
        known = checked(parameters)
        self.where = where
        self.timeout = timeout
        self._queries = MariadbQueries()
        self._writers = MariadbConnections(known, self._queries, self._draw, where=where, timeout=timeout, writing=True)
        self._readers = MariadbConnections(known, self._queries, self._draw, where=where, timeout=timeout, writing=False)
        self._readers.give_back(self._readers.open_at_once())
        self._check_release()
        self._clock = SharedClock()
        self._identity: int | None = None

    def writing(self, *, durable: bool, patient: bool = False) -> _Writing:  # noqa: ARG002  # the server decides what a commit survives
        return _Writing(self, patient)

    def begin(self, patient: bool) -> Connection:
        self._keep_time()
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
                failure = OutcomeUnknown(f"the connection to {self.where} broke while committing: it may or may not have been written")
            raise failure from error
        self._writers.give_back(connection)

    def roll_back(self, connection: Connection, error: BaseException) -> None:
        self._let_go(self._writers, connection)
        if isinstance(error, pymysql.MySQLError):
            raise self._failure(error) from error

    @contextmanager
    def reading(self) -> Iterator[Session]:
        with self._asking() as session:
            session.begin(_SNAPSHOT)
            yield session
            if not session.is_amid:
                session.finish(b"COMMIT")

    @contextmanager
    def joining(self, connection: Any) -> Iterator[Session]:
        self._check_joinable(connection)
        session = JoinedSession(connection, self._queries, self._draw)
        try:
            identity = session.join()
        except pymysql.MySQLError as error:
            if is_elsewhere(error):
                raise self._not_here() from error
            raise translate(error, self.where) from error
        if identity != self.identity():
            raise self._not_here()
        try:
            with session.savepoint():
                yield session
        except pymysql.MySQLError as error:
            raise translate(error, self.where) from error

    @contextmanager
    def migrating(self) -> Iterator[Session]:
        """Every statement commits by itself, so a migration that is cut off is run again from its beginning."""
        with self._asking() as session:
            if session.rows("lock_migrations", seconds=int(self.timeout))[0][0] != 1:
                raise StoreBusy(f"somebody else is making the tables at {self.where}: try again in a moment")
            try:
                yield session
            finally:
                session.rows("unlock_migrations")

    def news(self) -> int:
        """Others write all the time: what hangs on it is looked up once a second."""
        return int(running())

    def find_ready(self, topics: Sequence[str]) -> list[str]:
        with self._asking() as session:
            return [row[0] for row in session.rows("find_ready", queues=list(topics))]

    def clock(self) -> SharedClock:
        self._learn_time()
        return self._clock

    def identity(self) -> int:
        if self._identity is None:
            with self._asking() as session:
                self._identity = int(session.rows("read_identity")[0][0])
        return self._identity

    def tidy(self, *, thoroughly: bool) -> None:  # noqa: ARG002  # InnoDB clears up by itself
        self._keep_time()

    def examine(self) -> list[Finding]:
        with self._asking() as session:
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
    def _asking(self) -> Iterator[MariadbSession]:
        """A session in which every statement stands for itself."""
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
            connection.close()  # rows are on their way that nobody wants any more
        else:
            self._readers.give_back(connection)

    def _let_go(self, connections: MariadbConnections, connection: Connection) -> None:
        """Rolls back, also what a lock that came too late has left standing: that ends a statement only, not its transaction."""
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
        """On a connection of its own, so that senders do not wait for one another's commits. A number that was lost is never missed."""
        for _ in range(_MOST_DRAWS - 1):
            with suppress(TryAgain):
                return self._draw_once(count)
        return self._draw_once(count)

    def _draw_once(self, count: int) -> int:
        with self._asking() as session:
            return session.draw_last(count) - count + 1

    def _keep_time(self) -> None:
        if self._clock.learned_at is not None and running() - self._clock.learned_at > _LEARN_EVERY:
            self._learn_time()

    def _learn_time(self) -> None:
        with self._asking() as session:
            self._clock.learn(lambda: float(session.rows("read_clock")[0][0]))

    def _check_release(self) -> None:
        with self._asking() as session:
            refused = refused_release(session.rows("read_release")[0][0])
        if refused:
            self.close()
            raise StoreUnavailable(f"{refused} [{self.where}]")

    def _check_joinable(self, connection: Raw) -> None:
        if not isinstance(connection, pymysql.Connection):
            raise InvalidArgument(f"within() takes a pymysql.Connection to {self.where}, not {type(connection).__name__}")
        if not connection.open:
            raise StoreUnavailable("this connection is closed")
        if connection.charset != "utf8mb4":
            raise InvalidArgument("within() needs a connection with charset='utf8mb4', as it is by default")
        status: int = getattr(connection, "server_status", 0)
        if connection.get_autocommit() and not status & SERVER_STATUS.SERVER_STATUS_IN_TRANS:
            raise InvalidArgument("this connection has no open transaction: call connection.begin() first")

    def _not_here(self) -> InvalidArgument:
        return InvalidArgument(f"within() needs a connection to {self.where}, where the queue lives; this is another database")


class _Writing:
    """A transaction in a lane. A class, because a generator would cost as much as a query."""

    __slots__ = ("_connection", "_dialect", "_patient")

    def __init__(self, dialect: Mariadb, patient: bool) -> None:
        self._dialect = dialect
        self._patient = patient

    def __enter__(self) -> Session:
        self._connection = self._dialect.begin(self._patient)
        return self._connection.session

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self._dialect.commit(self._connection)
        else:
            self._dialect.roll_back(self._connection, error)
