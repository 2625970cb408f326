"""PostgreSQL: any number of processes, on any number of hosts."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from types import TracebackType
from typing import Any, Literal

import psycopg
from psycopg import pq

from rowq.clock import SharedClock, running
from rowq.errors import InvalidArgument, OutcomeUnknown, RowqError, StoreUnavailable
from rowq.store.dialect import Dialect, Finding, Session
from rowq.store.postgresql_connection import LOCK_TIMEOUT_MS, Connection, PostgresqlConnections
from rowq.store.postgresql_error import is_lost, translate
from rowq.store.postgresql_examination import examine
from rowq.store.postgresql_herald import PostgresqlHerald
from rowq.store.postgresql_line import Cursor
from rowq.store.postgresql_session import PostgresqlQueries, PostgresqlSession
from rowq.store.postgresql_vacuum import Vacuum
from rowq.store.retrying import ConnectionLost

Durability = Literal["send", "full", "normal"]

_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_LEARN_EVERY = 60.0
"""Seconds between two looks at the database's clock."""


class Postgresql(Dialect):
    name = "postgresql"
    has_one_writer = False
    settings_max_age_ms = 1_000
    tidy_every = 2

    def __init__(self, parameters: dict[str, Any], where: str, *, schema: str, durability: Durability, timeout: float) -> None:
        """`parameters` are libpq's; `where` names the database in messages, without a password."""
        if _SCHEMA.fullmatch(schema) is None:
            raise InvalidArgument(f"schema must be a name of letters, digits and underscores, not {schema!r}")
        self.where = where
        self.timeout = timeout
        self._durability = durability
        self._queries = PostgresqlQueries(schema)
        self._connections = PostgresqlConnections(parameters, where, self._queries, timeout)
        self._connections.check()
        self._clock = SharedClock()
        self._vacuum = Vacuum(self._connections, self._queries)
        self._identity: int | None = None

    def writing(self, *, durable: bool, patient: bool = False) -> _Writing:
        return _Writing(self, durable, patient)

    def striking(self) -> AbstractContextManager[Session] | None:
        is_possible = self._durability == "full" and not self._connections.is_pooled and not self._is_time_old()
        return self._strike() if is_possible else None

    @contextmanager
    def _strike(self) -> Iterator[Session]:
        connection = self._connections.take()
        try:
            with connection.striking() as session:
                yield session
        except BaseException as error:
            self.roll_back(connection, error)
            raise
        self._connections.give_back(connection)

    def begin(self, durable: bool, patient: bool) -> Connection:
        if self._is_time_old():
            self._learn_time()
        words = ["BEGIN"]
        if self._durability == "normal" or (self._durability == "send" and not durable):
            words.append("SET LOCAL synchronous_commit = off")
        if patient or self._connections.is_pooled:
            words.append(f"SET LOCAL lock_timeout = {int(self.timeout * 1000) if patient else LOCK_TIMEOUT_MS}")
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
            connection.close()  # an interrupt may have struck between a word and its answer
            return
        try:
            connection.recover()
        except psycopg.Error:
            connection.close()
        else:
            self._connections.give_back(connection)
        if isinstance(error, psycopg.Error):
            raise self._failure(connection, error) from error

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
                raise InvalidArgument(f"within() needs a connection to {self.where}, where the queue lives; this is another database")
            with connection.transaction():  # a savepoint: asking has opened the transaction, where it was not open yet
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

    def news(self) -> int:
        """Others write all the time: what hangs on it is looked up once a second."""
        return int(running())

    def find_ready(self, topics: Sequence[str]) -> list[str]:
        with self.reading() as session:
            return [row[0] for row in session.rows("find_ready", queues=list(topics))]

    def clock(self) -> SharedClock:
        self._learn_time()
        return self._clock

    def identity(self) -> int:
        if self._identity is None:
            with self.reading() as session:
                self._identity = int(session.rows("read_identity")[0][0])
        return self._identity

    def herald(self) -> PostgresqlHerald:
        return PostgresqlHerald(self._connections, self._queries, f"rowq_{self.identity()}")

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
        """A connection may have broken while it was idle: then the next one is tried, which is new."""
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
            time.sleep(pause * (0.5 + random.random()))
            pause = min(max(0.05, pause * 2), 2.0)

    def _failure(self, connection: Connection, error: psycopg.Error) -> RowqError:
        if is_lost(error):
            connection.close()
            self._connections.forget_idle()
        return translate(error, self.where)

    def _settle_doubt(self, xid: int, life: object, failure: RowqError) -> None:
        """The answer to a commit was lost: PostgreSQL knows what became of it. It returns if that was written.

        After a crash it may give the number of a transaction that is gone to another one: what it says then is only true if the
        number was never used."""
        fate, is_same_life = None, False
        with suppress(RowqError, psycopg.Error):
            fate, is_same_life = self._read_fate(xid, life)
        if fate == "aborted":
            raise failure
        if fate != "committed" or not is_same_life:
            raise OutcomeUnknown(f"the connection to {self.where} broke while committing: it may or may not have been written")

    def _read_fate(self, xid: int, life: object) -> tuple[str | None, bool]:
        fate, life_now = "in progress", None
        deadline = running() + self.timeout
        while fate == "in progress" and running() < deadline:  # the backend that was cut off may still be at it
            with self.reading() as session:
                fate, life_now = session.rows("read_fate", xid=str(xid))[0]
            if fate == "in progress":
                time.sleep(0.02)
        return fate, (life_now,) == life

    def _is_time_old(self) -> bool:
        return self._clock.learned_at is not None and running() - self._clock.learned_at > _LEARN_EVERY

    def _learn_time(self) -> None:
        with self.reading() as session:
            self._clock.learn(lambda: float(session.rows("read_clock")[0][0]))

    def _check_joinable(self, connection: Any) -> None:
        if not isinstance(connection, psycopg.Connection):
            raise InvalidArgument(f"within() takes a psycopg.Connection to {self.where}, not {type(connection).__name__}")
        if connection.closed:
            raise StoreUnavailable("this connection is closed")
        if connection.autocommit and connection.info.transaction_status == pq.TransactionStatus.IDLE:
            raise InvalidArgument("this connection has no open transaction: put `with connection.transaction():` around it")


class _Writing:
    """A transaction in a lane. A class, because a generator would cost as much as a query."""

    __slots__ = ("_connection", "_dialect", "_durable", "_patient")

    def __init__(self, dialect: Postgresql, durable: bool, patient: bool) -> None:
        self._dialect = dialect
        self._durable = durable
        self._patient = patient

    def __enter__(self) -> Session:
        self._connection = self._dialect.begin(self._durable, self._patient)
        return self._connection.session

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self._dialect.commit(self._connection)
        else:
            self._dialect.roll_back(self._connection, error)
