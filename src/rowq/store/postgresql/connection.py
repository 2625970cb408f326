"""Connections to PostgreSQL: each with its session, and set up so that an index is always used."""

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
"""How long a transaction in a fast lane waits for a row that somebody else holds, before it makes room."""

# Tables that nobody has analysed yet get plans that sort and scan; an index is always right here, and compiling never pays (decision 20).
_PLANS = {
    **dict.fromkeys(
        ("jit", "enable_seqscan", "enable_bitmapscan", "enable_sort", "enable_hashjoin", "enable_mergejoin", "enable_material"), "off"
    ),
    "plan_cache_mode": "force_generic_plan",
}
_LIMITS = {"lock_timeout": str(LOCK_TIMEOUT_MS), "idle_in_transaction_session_timeout": "30s"}


class Connection:
    """One of them, with the session that it carries from transaction to transaction."""

    def __init__(self, raw: psycopg.Connection[Any], queries: PostgresqlQueries, *, is_pooled: bool, life: object) -> None:
        """`life`: what tells the server from the one that it may be after a crash."""
        self.raw = raw
        self.life = life
        self._pipeline = Pipeline(raw, prepares=not is_pooled)
        self._is_pooled = is_pooled
        self.session = PostgresqlSession(self._pipeline, queries)

    @property
    def is_usable(self) -> bool:
        return not self.raw.closed

    def begin(self, *words: str) -> PostgresqlSession:
        """The first word opens the transaction; what the others say beats what holds behind a pooler."""
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
        """Every question is a transaction of its own."""
        self.session.begin()
        self._pipeline.is_striking = True
        try:
            yield self.session
        finally:
            self._pipeline.is_striking = False

    def end(self, word: str) -> None:
        """Says the last word, and waits until everything is answered."""
        self._pipeline.say(word.encode())
        self._pipeline.sync()

    def recover(self) -> None:
        """After an error: whatever was said since is answered, and forgotten."""
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
        """Whether a pooler stands between us and the server, which gives each transaction another backend: nothing may be left behind
        on a connection then, neither settings nor prepared statements."""
        self._parameters = parameters
        self._queries = queries

    def open(self) -> Connection:
        return greenlet_bridge.slowly(super().open, Connection.close)

    def check(self) -> None:
        """The first one: what is wrong with it is said at once, and not tried again."""
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
        """One as the driver has it, the caller's to close."""
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
