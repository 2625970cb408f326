"""How MariaDB runs named queries: writes are buffered and sent together with the next read, or with the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pymysql import MySQLError
from pymysql.constants import CLIENT, ER

from rowq.errors import PayloadTooLarge
from rowq.store.dialect import Row, Session
from rowq.store.mariadb.driver import Answer, Asking, Raw, ask, stream
from rowq.store.mariadb.errors import code_of
from rowq.store.mariadb.statement import MariadbQueries, quoting, runs

_PIECE_BYTES = 1 << 20
"""The approximate limit for buffered writes, and for an insert of several rows."""
_MARGIN = 128 << 10
"""Kept below the server's limit: a body is read in one row with its headers and key, which must fit too."""

_quote = quoting(backslashes=True)
_quote_plainly = quoting(backslashes=False)


class MariadbSession(Session):
    is_alone = False
    _deletes_in_a_row = True

    def __init__(self, raw: Raw, queries: MariadbQueries, draw: Callable[[int], int], ask: Asking = ask) -> None:
        """`draw` returns the first of the given number of new seqs; `ask` sends statements in the way of the connection's driver."""
        self._raw: Raw = raw
        self._ask_server = ask
        self._queries = queries
        self._draw = draw
        self._most_bytes = self._piece_bytes = _PIECE_BYTES
        self._quote = _quote
        self._says_several = bool(raw.client_flag & CLIENT.MULTI_STATEMENTS)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self.begin()

    def learn_limits(self) -> None:
        """Reads how many bytes the server accepts at once."""
        self._limit(self.rows("read_limits")[0][0])

    def _limit(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes - min(_MARGIN, most_bytes // 8)
        self._piece_bytes = min(_PIECE_BYTES, self._most_bytes // 2)

    def begin(self, *statements: bytes) -> None:
        """The statements are sent together with the first query."""
        self._waiting = list(statements)
        self._waiting_bytes = 0
        self.has_spoken = False
        """Whether anything was sent since the transaction began."""
        self.has_written = False
        self.is_ending = False
        """Whether the commit was sent."""
        self.is_amid = False
        """Whether an answer is outstanding: after an interrupt the connection must not be used."""

    def finish(self, statement: bytes) -> None:
        """Sends the last statement of the transaction, together with the buffered writes."""
        if self.has_spoken or self._waiting:
            statements = self._gathered(statement)
            self.is_ending = True
            self._send(statements)

    def rows(self, query: str, /, **values: Any) -> list[Row]:
        return self._ask(self._queries.statement(query).of_one(values, self._quote)).rows

    def run(self, query: str, /, **values: Any) -> int:
        self.has_written = True
        return self._ask(self._queries.statement(query).of_one(values, self._quote)).matched

    def write(self, query: str, /, **values: Any) -> None:
        if query == "delete_leased" and self._deletes_in_a_row and _is_in_a_row(seqs := values["seqs"]):
            query, values = "delete_leased_in_a_row", {"first": seqs[0], "last": seqs[-1], "limit": len(seqs)}
        self._wait(self._queries.statement(query).of_one(values, self._quote))

    def many(self, query: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        if query == "delete_ready" and self._deletes_in_a_row and _is_in_a_row([row[2] for row in rows]) and _are_of_one_rank(rows):
            queue, ranking, first, _ = rows[0]
            self.write("delete_ready_in_a_row", queue=queue, ranking=ranking, first=first, last=rows[-1][2], limit=len(rows))
            return
        for statement in self._queries.statement(query).of_many(columns, rows, self._quote, self._piece_bytes):
            self._wait(statement)

    def insert_leased_alike(self, tokens: dict[int, int], values: dict[str, Any]) -> None:
        common = {**values, "expires_at": None, "error": None}
        insert = self._queries.statement("insert_leased")
        for statement in insert.of_alike(common, ("seq", "token"), tokens.items(), self._quote, self._piece_bytes):
            self._wait(statement)

    def draw_seqs(self, count: int) -> int:
        return self._draw(count)

    def draw_last(self, count: int) -> int:
        """The last of `count` new seqs, for a session that commits every statement by itself."""
        return self._ask(self._queries.statement("draw_seqs").of_one({"count": count}, self._quote)).number

    def stream(self, query: str, /, **values: Any) -> Iterator[Row]:
        self.send_waiting()
        self.has_spoken = self.is_amid = True
        yield from stream(self._raw, self._queries.statement(query).of_one(values, self._quote))
        self.is_amid = False

    def install(self, statements: Sequence[str]) -> None:
        collation = self.rows("find_collation")[0][0]
        storage = f"ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE {collation}"
        for statement in statements:
            self._ask(statement.replace("{storage}", storage).encode())

    def send_waiting(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if self._says_several and waiting:
            self._send(waiting)
        else:
            for statement in waiting:
                self._send([statement])

    def _wait(self, statement: bytes) -> None:
        self.has_written = True
        if self._waiting_bytes + len(statement) > self._piece_bytes:
            self.send_waiting()
        self._waiting.append(statement)
        self._waiting_bytes += len(statement)

    def _ask(self, statement: bytes) -> Answer:
        return self._send(self._gathered(statement))

    def _gathered(self, statement: bytes) -> list[bytes]:
        """The buffered writes and the statement, if both can be sent at once."""
        if not self._says_several or self._waiting_bytes + len(statement) > self._piece_bytes:
            self.send_waiting()
        statements = [*self._waiting, statement]
        self._waiting, self._waiting_bytes = [], 0
        return statements

    def _send(self, statements: list[bytes]) -> Answer:
        size = sum([len(statement) + 1 for statement in statements])
        if size > self._most_bytes:
            raise PayloadTooLarge(
                f"this takes {size} bytes, and the database takes {self._most_bytes} at once: send less, or raise its max_allowed_packet"
            )
        self.has_spoken = self.is_amid = True
        try:
            answer = self._ask_server(self._raw, statements)
        except MySQLError:
            self.is_amid = False  # an error is the last answer
            raise
        self.is_amid = False
        return answer


def _is_in_a_row(numbers: list[int]) -> bool:
    return len(numbers) > 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _are_of_one_rank(rows: Sequence[Row]) -> bool:
    return all(row[:2] == rows[0][:2] for row in rows)


class JoinedSession(MariadbSession):
    """On an application's connection, inside its transaction, with the application's isolation level: at REPEATABLE READ, deleting a range
    would also lock the gaps between its rows and before it."""

    _deletes_in_a_row = False

    def join(self) -> int:
        """Reads the connection's limits and quoting rules; returns the identity of its database."""
        identity, most_bytes, self._is_safe, has_plain_backslashes = self.rows("read_joined")[0]
        self._limit(most_bytes)
        self._quote = _quote_plainly if has_plain_backslashes else _quote
        return int(identity)

    def has_transaction(self) -> bool:
        """Whether a transaction is open on an autocommit connection: without one, a savepoint is released at once."""
        self._ask(b"SAVEPOINT rowq_within")
        try:
            self._ask(b"RELEASE SAVEPOINT rowq_within")
        except MySQLError as error:
            if code_of(error) != ER.SP_DOES_NOT_EXIST:
                raise
            return False
        return True

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """On an error, everything since the savepoint is rolled back; the rest is left to the application."""
        self.begin(b"SAVEPOINT rowq_within", *([] if self._is_safe else [b"SET SESSION sql_safe_updates = 1"]))
        try:
            yield
            self.send_waiting()
            self._ask(b"RELEASE SAVEPOINT rowq_within")
        except BaseException:
            with suppress(MySQLError):  # a deadlock has undone the whole transaction, a lost connection too
                self._go_back()
            raise
        finally:
            if not self._is_safe:
                with suppress(MySQLError):
                    self._ask(b"SET SESSION sql_safe_updates = 0")

    def _go_back(self) -> None:
        if self.is_amid:
            self._raw.close()  # the next answer would belong to an earlier statement
        self.begin()
        self._ask(b"ROLLBACK TO SAVEPOINT rowq_within")
        self._ask(b"RELEASE SAVEPOINT rowq_within")

    def rows(self, query: str, /, **values: Any) -> list[Row]:
        return super().rows(_OF_NOW.get(query, query), **values)

    def many(self, query: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        listed = _LISTED.get(query)
        if listed is None:
            super().many(query, columns, rows)
        else:
            for rest, seqs in runs(rows):
                self.write(listed, seqs=seqs, **dict(zip(columns[2:], rest, strict=True)))


_OF_NOW = {"find_waiting": "find_waiting_now"}
_LISTED = {"make_ready": "make_ready_listed", "audit_enqueued": "audit_enqueued_listed"}
