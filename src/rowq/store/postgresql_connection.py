"""Connections to PostgreSQL: opened when they are needed, kept while they work, opened again when the server comes back."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from rowq.clock import running
from rowq.errors import StoreReadOnly, StoreUnavailable
from rowq.store.postgresql_error import is_worth_another_try, refusal
from rowq.store.postgresql_line import Pipeline
from rowq.store.postgresql_session import PostgresqlQueries, PostgresqlSession

LOCK_TIMEOUT_MS = 200
"""How long a transaction in a fast lane waits for a row that somebody else holds, before it makes room."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_MOST_IDLE = 8

# Tables that nobody has analysed yet get plans that sort and scan; an index is always right here, and compiling never pays (decision 20).
_PLANS = {
    **dict.fromkeys(("jit", "enable_seqscan", "enable_bitmapscan", "enable_sort", "enable_hashjoin", "enable_mergejoin"), "off"),
    "plan_cache_mode": "force_generic_plan",
}
_LIMITS = {"lock_timeout": str(LOCK_TIMEOUT_MS), "idle_in_transaction_session_timeout": "30s"}


class Connection:
    """One of them, with the session that it carries from transaction to transaction."""

    def __init__(self, raw: psycopg.Connection[Any], queries: PostgresqlQueries, *, is_pooled: bool) -> None:
        self.raw = raw
        self._pipeline = Pipeline(raw, prepares=not is_pooled)
        self._is_pooled = is_pooled
        self.session = PostgresqlSession(self._pipeline, queries)

    def begin(self, *words: str) -> PostgresqlSession:
        self.session.begin()
        for word in words:
            self._pipeline.say(word.encode())
        if self._is_pooled:
            for name, value in (_PLANS | _LIMITS).items():
                self._pipeline.say(f"SET LOCAL {name} = '{value}'".encode())
        return self.session

    @contextmanager
    def striking(self) -> Iterator[PostgresqlSession]:
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


class Connections:
    """Those of one process. Idle ones are lent again, the last one first."""

    def __init__(self, parameters: dict[str, Any], where: str, queries: PostgresqlQueries, timeout: float) -> None:
        self.where = where
        self.is_pooled = False
        """Whether a pooler stands between us and the server, which gives each transaction another backend: nothing may be left behind
        on a connection then, neither settings nor prepared statements."""
        self._parameters = parameters
        self._queries = queries
        self._timeout = timeout
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def check(self) -> None:
        """The first one: what is wrong with it is said at once, and not tried again."""
        try:
            raw = self._connect()
            backend, is_standby = raw.execute(self._queries.of_one("read_backend").text).fetchone() or (0, False)
            self.is_pooled = backend != raw.info.backend_pid
            self._prepare(raw)
        except psycopg.Error as error:
            raise refusal(error, self.where) from error
        if is_standby:
            raw.close()
            raise StoreReadOnly(f"{self.where} is a standby, which cannot be written: give the address of the primary")
        self.give_back(Connection(raw, self._queries, is_pooled=self.is_pooled))

    def take(self) -> Connection:
        with self._lock:
            if self._is_closed:
                raise StoreUnavailable(f"the connections to {self.where} are closed")
            if self._idle:
                return self._idle.pop()
        return Connection(self.open(), self._queries, is_pooled=self.is_pooled)

    def give_back(self, connection: Connection) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < _MOST_IDLE and not connection.raw.closed:
                self._idle.append(connection)
                return
        connection.close()

    def open(self) -> psycopg.Connection[Any]:
        """One as the driver has it, the caller's to close. While the server is away it is tried again, each time after a longer pause,
        until the timeout."""
        deadline, pause = running() + self._timeout, _FIRST_PAUSE
        while True:
            try:
                return self._open()
            except psycopg.Error as error:
                if self._is_closed or not is_worth_another_try(error) or running() + pause > deadline:
                    raise refusal(error, self.where) from error
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def forget_idle(self) -> None:
        """One has broken: so have the others, most likely."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def leave_to_parent(self) -> None:
        """Closing would say goodbye in the parent's name; so they are kept, and never touched again."""
        _inherited.extend(self._idle)
        self._idle = []
        self._is_closed = True
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self.forget_idle()

    def _open(self) -> psycopg.Connection[Any]:
        raw = self._connect()
        self._prepare(raw)
        return raw

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(**self._parameters, autocommit=True, client_encoding="UTF8", prepare_threshold=None)

    def _prepare(self, raw: psycopg.Connection[Any]) -> None:
        if not self.is_pooled:
            raw.execute("; ".join(f"SET {name} = '{value}'" for name, value in (_PLANS | _LIMITS).items()).encode())


_inherited: list[Connection] = []
"""What a child of a fork has found open."""
