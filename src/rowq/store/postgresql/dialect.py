"""PostgreSQL: any number of processes, on any number of hosts."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import lru_cache
from typing import Any, Literal

import psycopg
from psycopg import pq

from rowq.clock import running
from rowq.errors import InvalidArgument, RowqError, StoreUnavailable
from rowq.store.app_connection import refusal
from rowq.store.dialect import ArrowDriver, Finding, Session
from rowq.store.postgresql import peq
from rowq.store.postgresql.connection import Connection, PostgresqlConnections
from rowq.store.postgresql.doctor import examine
from rowq.store.postgresql.errors import is_lost, translate
from rowq.store.postgresql.notifier import PostgresqlNotifier
from rowq.store.postgresql.pipeline import Cursor, savepoint
from rowq.store.postgresql.session import PostgresqlQueries, PostgresqlSession
from rowq.store.postgresql.vacuum import Vacuum
from rowq.store.postgresql.watermark import PostgresqlWatermark
from rowq.store.retry import ConnectionLost
from rowq.store.server import greenlet_bridge
from rowq.store.server.dialect import ServerDialect
from rowq.store.server.errors import elsewhere, in_doubt

Durability = Literal["send", "full", "normal"]

_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_ACCEPTED = """a Connection of psycopg 3, a Connection or Session of SQLAlchemy on postgresql+psycopg://, Django's connection with \
psycopg 3, or, with rowq.connect_async(), an AsyncConnection of psycopg 3 or an AsyncConnection or AsyncSession of SQLAlchemy"""
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")

# Read and rendered once per process, however many brokers it opens.
_queries_of = lru_cache(maxsize=16)(PostgresqlQueries)


class Postgresql(ServerDialect[Connection]):
    name = "postgresql"
    tidy_every = 2
    can_bridge = True
    has_autocommit = True

    def __init__(self, parameters: dict[str, Any], where: str, *, schema: str, durability: Durability, timeout: float) -> None:
        """`parameters` are libpq's; `where` names the database in messages, without a password."""
        if _SCHEMA.fullmatch(schema) is None:
            raise InvalidArgument(f"schema must be a name of letters, digits and underscores, not {schema!r}")
        super().__init__()
        self.where = where
        self.timeout = timeout
        self._durability = durability
        self._parameters = parameters
        self._queries = _queries_of(schema)
        self._connections = PostgresqlConnections(parameters, where, self._queries, timeout)
        self._connections.check()
        self._vacuum = Vacuum(self._connections, self._queries)

    def autocommitting(self) -> AbstractContextManager[Session] | None:
        is_possible = self._durability == "full" and not self._connections.is_pooled and not self.is_time_old()
        return self._strike() if is_possible else None

    @contextmanager
    def _strike(self) -> Iterator[Session]:
        connection = self._connections.take()
        try:
            with connection.autocommitting() as session:
                yield session
        except BaseException as error:
            self.roll_back(connection, error)
            raise
        self._connections.give_back(connection)

    def begin(self, durable: bool, patient: bool) -> Connection:
        self.keep_time()
        words = ["BEGIN"]
        if self._durability == "normal" or (self._durability == "send" and not durable):
            words.append("SET LOCAL synchronous_commit = off")
        if patient:
            words.append(f"SET LOCAL lock_timeout = {int(self.timeout * 1000)}")
        connection = self._connections.take()
        try:
            connection.begin(*words)
        except psycopg.Error as error:
            connection.close()
            raise self._failure(connection, error) from error
        return connection

    def commit(self, connection: Connection) -> None:
        session, is_on_its_way = connection.session, False
        try:
            if session.has_written and session.xid is None:
                session.read_xid()
            is_on_its_way = True
            connection.end("COMMIT")
        except psycopg.Error as error:
            failure = self._failure(connection, error)
            connection.close()
            if is_on_its_way and isinstance(failure, ConnectionLost) and session.xid is not None:
                self._settle_doubt(session.xid, connection.life, failure)
            else:
                raise failure from error
        else:
            self._connections.give_back(connection)

    def roll_back(self, connection: Connection, error: BaseException | None = None) -> None:
        if error is not None and not isinstance(error, Exception):
            connection.close()  # an interrupt may have come between a statement and its answer
            return
        try:
            connection.recover()
        except psycopg.Error:
            connection.close()
        else:
            self._connections.give_back(connection)
        if isinstance(error, psycopg.Error):
            raise self._failure(connection, error) from error

    def pause(self, seconds: float) -> None:
        greenlet_bridge.pause(seconds)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        connection = self._begin_reading()
        try:
            yield connection.session
        except BaseException as error:
            self.roll_back(connection, error)
            raise
        self.roll_back(connection)

    @contextmanager
    def joining(self, connection: Any) -> Iterator[Session]:
        self._check_joinable(connection)
        try:
            session = PostgresqlSession(Cursor(connection), self._queries)
            if not session.rows("is_installed")[0][0] or session.rows("read_identity")[0][0] != self.identity():
                raise elsewhere(self.where)
            with savepoint(connection):  # the queries above have opened the transaction if it was not open yet
                yield session
        except psycopg.Error as error:
            raise translate(error, self.where) from error

    @contextmanager
    def migrating(self) -> Iterator[Session]:
        with closing(self._connections.open_plain()) as connection:
            try:
                with connection.transaction():
                    connection.execute(f"SET LOCAL lock_timeout = {int(self.timeout * 1000)}".encode())
                    session = PostgresqlSession(Cursor(connection), self._queries)
                    session.rows("lock_migrations")
                    if not session.rows("has_schema")[0][0]:
                        session.write("create_schema")
                    session.write("use_schema")
                    yield session
            except psycopg.Error as error:
                raise translate(error, self.where) from error

    def notifier(self) -> PostgresqlNotifier:
        return PostgresqlNotifier(self._connections, self._queries, f"rowq_{self.identity()}")

    def arrow(self) -> ArrowDriver | None:
        try:
            from rowq.store.postgresql.arrow import PostgresqlArrow
        except ImportError:  # tables are then built from rows, more slowly
            return None
        return PostgresqlArrow(self._parameters, self.where, self._queries)

    def watermark(self) -> PostgresqlWatermark:
        return PostgresqlWatermark(self)

    def install_peq(self, queue: str) -> None:
        with self.migrating() as session:
            peq.install(session, queue, self._queries.schema)

    def tidy(self, *, thoroughly: bool) -> None:  # noqa: ARG002  # autovacuum does the rest
        self._vacuum.run()

    def examine(self) -> list[Finding]:
        with self.reading() as session:
            return examine(session, self._durability, is_pooled=self._connections.is_pooled, open=self._connections.open_plain)

    def leave_to_parent(self) -> None:
        self._connections.leave_to_parent()
        self._vacuum.leave_to_parent()

    def hurry(self) -> None:
        self._connections.hurry()

    def close(self) -> None:
        self._vacuum.close()
        self._connections.close()

    def _begin_reading(self) -> Connection:
        """A connection may have broken while idle: then the next one is tried, which is new."""
        deadline, pause = running() + self.timeout, 0.0
        while True:
            connection = self._connections.take()
            try:
                connection.begin(_SNAPSHOT)
                connection.session.rows("is_installed")
                return connection
            except psycopg.Error as error:
                connection.close()
                failure = self._failure(connection, error)
                if not isinstance(failure, ConnectionLost) or running() > deadline:
                    raise failure from error
            self.pause(pause * (0.5 + random.random()))
            pause = min(max(0.05, pause * 2), 2.0)

    def _failure(self, connection: Connection, error: psycopg.Error) -> RowqError:
        if is_lost(error):
            connection.close()
            self._connections.forget_idle()
        return translate(error, self.where)

    def _settle_doubt(self, xid: int, life: object, failure: RowqError) -> None:
        """The answer to a commit was lost: asks PostgreSQL for its outcome, and returns if it was committed.

        After a crash PostgreSQL may reuse the id of a lost transaction, so "committed" is trusted only if the server has not crashed
        since."""
        fate, is_same_life = None, False
        with suppress(RowqError, psycopg.Error):
            fate, is_same_life = self._read_fate(xid, life)
        if fate == "aborted":
            raise failure
        if fate != "committed" or not is_same_life:
            raise in_doubt(self.where)

    def _read_fate(self, xid: int, life: object) -> tuple[str | None, bool]:
        """Asks until the outcome is known, or the timeout: the old backend may still be working, and this connection may break too."""
        fate, life_now = "in progress", None
        deadline = running() + self.timeout
        while fate == "in progress" and running() < deadline:
            with suppress(ConnectionLost), self.reading() as session:
                fate, life_now = session.rows("read_fate", xid=str(xid))[0]
            if fate == "in progress":
                self.pause(0.02)
        return fate, (life_now,) == life

    def _check_joinable(self, connection: Any) -> None:
        if not isinstance(connection, psycopg.Connection if greenlet_bridge.current() is None else psycopg.AsyncConnection):
            raise refusal(connection, _ACCEPTED, self.where)
        if connection.closed:
            raise StoreUnavailable("this connection is closed")
        if connection.autocommit and connection.info.transaction_status == pq.TransactionStatus.IDLE:
            raise InvalidArgument("this connection has no open transaction: use `with connection.transaction():`, or turn autocommit off")
