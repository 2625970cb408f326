"""Connections to PostgreSQL, each with its session, and set up so that queries always use an index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from rowq.errors import StoreReadOnly
from rowq.store.postgresql.errors import is_worth_another_try, refusal
from rowq.store.postgresql.pipeline import Pipeline
from rowq.store.postgresql.session import PostgresqlQueries, PostgresqlSession
from rowq.store.server import greenlet_bridge
from rowq.store.server.connections import Connections, Refused

LOCK_TIMEOUT_MS = 200
"""How long an impatient transaction waits for a row that another one has locked."""

# Tables that were not analyzed yet get plans that sort and scan; here an index is always right, and JIT never pays off (decision 20).
_PLANS = {
    **dict.fromkeys(
        ("jit", "enable_seqscan", "enable_bitmapscan", "enable_sort", "enable_hashjoin", "enable_mergejoin", "enable_material"), "off"
    ),
    "plan_cache_mode": "force_generic_plan",
}
_LIMITS = {"lock_timeout": str(LOCK_TIMEOUT_MS), "idle_in_transaction_session_timeout": "30s"}


class Connection:
    """A connection with its session, which it keeps from transaction to transaction."""

    def __init__(self, raw: psycopg.Connection[Any], queries: PostgresqlQueries, *, is_pooled: bool, life: object) -> None:
        """`life` is a value of the server that changes with a crash or failover, but not with a restart."""
        self.raw = raw
        self.life = life
        self._pipeline = Pipeline(raw, prepares=not is_pooled)
        self._is_pooled = is_pooled
        self.session = PostgresqlSession(self._pipeline, queries)

    @property
    def is_usable(self) -> bool:
        return not self.raw.closed

    def begin(self, *words: str) -> PostgresqlSession:
        """The first statement opens the transaction; the others come last, so they override the settings for a pooler."""
        self.session.begin()
        first, *others = words
        self._pipeline.say(first.encode())
        for name, value in (_PLANS | _LIMITS).items() if self._is_pooled else ():
            self._pipeline.say(f"SET LOCAL {name} = '{value}'".encode())
        for word in others:
            self._pipeline.say(word.encode())
        return self.session

    @contextmanager
    def autocommitting(self) -> Iterator[PostgresqlSession]:
        """Every query is a transaction of its own."""
        self.session.begin()
        self._pipeline.is_autocommitting = True
        try:
            yield self.session
        finally:
            self._pipeline.is_autocommitting = False

    def end(self, word: str) -> None:
        """Sends the last statement and waits for all answers."""
        self._pipeline.say(word.encode())
        self._pipeline.sync()

    def recover(self) -> None:
        """After an error: reads and drops all outstanding answers, and rolls back."""
        with suppress(psycopg.Error):
            self._pipeline.sync()
        self.end("ROLLBACK")

    def close(self) -> None:
        with suppress(psycopg.Error):
            self.raw.close()


class PostgresqlConnections(Connections[Connection]):
    def __init__(self, parameters: dict[str, Any], where: str, queries: PostgresqlQueries, timeout: float) -> None:
        super().__init__(where, timeout)
        self.is_pooled = False
        """Whether a pooler may give each transaction another backend: then a connection keeps neither settings nor prepared
        statements."""
        self._parameters = parameters
        self._queries = queries

    def open(self) -> Connection:
        return greenlet_bridge.slowly(super().open, Connection.close)

    def check(self) -> None:
        """Opens the first connection: an error is raised at once, without another attempt."""
        raw: psycopg.Connection[Any] | None = None
        try:
            raw = self._connect()
            backend, is_standby = raw.execute(self._queries.of_one("read_backend").text).fetchone() or (0, False)
            self.is_pooled = backend != raw.info.backend_pid
            connection = self._prepared(raw)
        except psycopg.Error as error:
            if raw is not None:
                raw.close()
            raise refusal(error, self.where) from error
        if is_standby:
            connection.close()
            raise StoreReadOnly(f"{self.where} is a standby, which cannot be written: give the address of the primary")
        self.give_back(connection)

    def open_plain(self) -> psycopg.Connection[Any]:
        """A plain connection of the driver; the caller closes it."""
        return self._insist(self._open_plain)

    def _open(self) -> Connection:
        try:
            return self._prepared(self._connect())
        except psycopg.Error as error:
            raise Refused(refusal(error, self.where), may_pass=is_worth_another_try(error)) from error

    def _open_plain(self) -> psycopg.Connection[Any]:
        try:
            return self._set_up(self._connect())
        except psycopg.Error as error:
            raise Refused(refusal(error, self.where), may_pass=is_worth_another_try(error)) from error

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(**self._parameters, autocommit=True, client_encoding="UTF8", prepare_threshold=None)

    def _prepared(self, raw: psycopg.Connection[Any]) -> Connection:
        try:
            life = self._set_up(raw).execute(self._queries.of_one("read_life").text).fetchone()
        except BaseException:
            raw.close()
            raise
        return Connection(raw, self._queries, is_pooled=self.is_pooled, life=life)

    def _set_up(self, raw: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
        if not self.is_pooled:
            try:
                raw.execute("; ".join(f"SET {name} = '{value}'" for name, value in (_PLANS | _LIMITS).items()).encode())
            except BaseException:
                raw.close()
                raise
        return raw
