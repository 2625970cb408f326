"""Lines to PostgreSQL: they send statements and read the answers.

Our own connections use libpq's pipeline mode directly: statements are sent without waiting, and their answers are read together when one
is needed. That costs a fifth of what the driver's cursors cost, which matters for transactions of a tenth of a millisecond. An
application's connection is used through the driver.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.rows import tuple_row

from rowq.store.dialect import Row
from rowq.store.postgresql.types import adapt, wired
from rowq.store.server import greenlet_bridge

AppConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
"""The second only inside the greenlet bridge."""

_BINARY = pq.Format.BINARY
_PATIENCE_MS = 1_000


class Statement:
    """A query with `$1`, `$2` … for its parameters, and the same in the driver's syntax."""

    __slots__ = ("driver_text", "names", "text")

    def __init__(self, text: str, names: Sequence[str], driver_text: str) -> None:
        self.text = text.encode()
        self.names = tuple(names)
        self.driver_text = driver_text


class Line(Protocol):
    def send(self, statement: Statement, values: dict[str, Any]) -> None:
        """Sends a statement without waiting; its error, if any, is raised with the next answer."""

    def ask(self, statement: Statement, values: dict[str, Any]) -> list[Row]: ...

    def count(self, statement: Statement, values: dict[str, Any]) -> int:
        """Returns how many rows the statement has written."""


class Pipeline:
    """One of our own connections, permanently in pipeline mode."""

    def __init__(self, raw: psycopg.Connection[Any], *, prepares: bool) -> None:
        self._raw = raw
        self._wire = raw.pgconn
        self._wire.nonblocking = 1
        self._wire.enter_pipeline_mode()
        self._poll = select.poll()
        self._poll.register(self._wire.socket, select.POLLIN)
        self._is_encrypted = bool(self._wire.ssl_in_use)
        self._rows = Transformer(raw)
        self._prepares = prepares
        self._prepared: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._unsure: list[tuple[bytes, tuple[int, ...]]] = []
        """Statements prepared since the last sync: an earlier error would have prevented it."""
        self._number = 0
        self._pending = 0
        self.is_autocommitting = False
        """Whether each query is a transaction of its own, committed before its answer is read."""

    def say(self, word: bytes) -> None:
        """Sends a statement without parameters."""
        self._execute(word, (), ())

    def send(self, statement: Statement, values: dict[str, Any]) -> None:
        kinds, data = zip(*[wired(values[name]) for name in statement.names], strict=True) if statement.names else ((), ())
        self._execute(statement.text, kinds, data)

    def ask(self, statement: Statement, values: dict[str, Any]) -> list[Row]:
        self.send(statement, values)
        if self.is_autocommitting:
            self._wire.pipeline_sync()
            self._pending += 1
        else:
            self._wire.send_flush_request()
        answer = self._read()
        if self.is_autocommitting:
            self._unsure.clear()
        self._rows.set_pgresult(answer)
        return self._rows.load_rows(0, answer.ntuples, tuple)

    def count(self, statement: Statement, values: dict[str, Any]) -> int:
        self.send(statement, values)
        self._wire.send_flush_request()
        return self._read().command_tuples or 0

    def sync(self) -> None:
        """Reads all answers and resets the pipeline; raises the first error among them."""
        self._wire.pipeline_sync()
        self._pending += 1
        self._read()
        self._unsure.clear()

    def _execute(self, text: bytes, kinds: tuple[int, ...], data: Sequence[Any]) -> None:
        formats = [_BINARY] * len(kinds)
        if not self._prepares:
            self._wire.send_query_params(text, data, kinds, formats, _BINARY)
        else:
            self._wire.send_query_prepared(self._name(text, kinds), data, formats, _BINARY)
        self._pending += 1

    def _name(self, text: bytes, kinds: tuple[int, ...]) -> bytes:
        key = (text, kinds)
        name = self._prepared.get(key)
        if name is None:
            self._number += 1
            name = self._prepared[key] = b"rowq%d" % self._number
            self._unsure.append(key)
            self._wire.send_prepare(name, text, kinds)
            self._pending += 1
        return name

    def _read(self) -> Any:
        """Reads the answers to everything that was sent; returns the last one."""
        wire, last, error = self._wire, None, None
        self._flush()
        while self._pending:
            while wire.is_busy():
                self._wait()
                self._take_in()
            result = wire.get_result()
            if result is None:
                self._pending -= 1
                continue
            status = result.status
            if status == pq.ExecStatus.PIPELINE_SYNC:
                self._pending -= 1
            elif status == pq.ExecStatus.FATAL_ERROR:
                error = error or self._error(result)
                if wire.status == pq.ConnStatus.BAD:
                    break
            elif status != pq.ExecStatus.PIPELINE_ABORTED:
                last = result
        if error is not None:
            for key in self._unsure:
                self._prepared.pop(key, None)
            self._unsure.clear()
            raise error
        return last

    def _flush(self) -> None:
        while self._wire.flush():  # the buffer is full: the server may be waiting for us to read
            self._wait(to_write=True)
            self._take_in()

    def _take_in(self) -> None:
        """Reads all available input. With TLS, data that is already decrypted does not make the socket readable, and some versions of libpq
        read only as much as fits their buffer: another call reads the rest."""
        wire = self._wire
        wire.consume_input()
        if self._is_encrypted:
            while wire.is_busy() and self._poll.poll(0):
                wire.consume_input()
            wire.consume_input()

    def _wait(self, *, to_write: bool = False) -> None:
        here = greenlet_bridge.current()
        if here is not None:
            at_most = _PATIENCE_MS / 1000 if self._is_encrypted else None
            here.wait_for_socket(self._wire.socket, self._raw, to_write=to_write, at_most=at_most)
            return
        if to_write:
            self._poll.modify(self._wire.socket, select.POLLIN | select.POLLOUT)
        self._poll.poll(_PATIENCE_MS)
        if to_write:
            self._poll.modify(self._wire.socket, select.POLLIN)

    def _error(self, result: Any) -> psycopg.Error:
        if self._wire.status == pq.ConnStatus.BAD or not result.error_field(pq.DiagnosticField.SQLSTATE):
            return psycopg.OperationalError(result.error_message.decode(errors="replace"))
        return psycopg.errors.error_from_result(result, encoding="utf-8")


class Cursor:
    """A connection that is used through the driver: an application's, or a plain one."""

    def __init__(self, connection: AppConnection) -> None:
        # Not `connection.cursor()`: the application may have set a factory whose cursors write values into the statement.
        self._cursor: Any = (
            psycopg.Cursor(connection, row_factory=tuple_row)
            if isinstance(connection, psycopg.Connection)
            else psycopg.AsyncCursor(connection, row_factory=tuple_row)
        )
        self._cursor.format = pq.Format.BINARY
        adapt(self._cursor.adapters)

    def send(self, statement: Statement, values: dict[str, Any]) -> None:
        text = statement.driver_text.encode() if not statement.names else statement.driver_text
        greenlet_bridge.finished(self._cursor.execute(text, values or None))

    def ask(self, statement: Statement, values: dict[str, Any]) -> list[Row]:
        self.send(statement, values)
        rows: list[Row] = greenlet_bridge.finished(self._cursor.fetchall())
        return rows

    def count(self, statement: Statement, values: dict[str, Any]) -> int:
        self.send(statement, values)
        rows: int = self._cursor.rowcount
        return rows


@contextmanager
def savepoint(connection: AppConnection) -> Iterator[None]:
    """On an error, everything inside is rolled back, and the rest is left to the application; a transaction must be open."""
    if isinstance(connection, psycopg.Connection):
        with connection.transaction():
            yield
        return
    # Shielded: after an interrupt here the driver would refuse the application's own rollback().
    block = connection.transaction()
    greenlet_bridge.finished(block.__aenter__(), shielded=True)
    try:
        yield
    except BaseException as error:
        greenlet_bridge.finished(block.__aexit__(type(error), error, error.__traceback__), shielded=True)
        raise
    greenlet_bridge.finished(block.__aexit__(None, None, None), shielded=True)
