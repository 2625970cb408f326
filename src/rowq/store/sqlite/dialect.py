"""SQLite: one writer, a few readers, write-ahead log."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from rowq.errors import InvalidArgument, OutcomeUnknown, StoreBusy, StoreUnavailable
from rowq.store.app_connection import refusal
from rowq.store.dialect import Dialect, Finding, Session
from rowq.store.sqlite.doctor import examine
from rowq.store.sqlite.errors import is_busy, is_disk_error, translate
from rowq.store.sqlite.lone import Lone
from rowq.store.sqlite.session import SqliteQueries, SqliteSession

Durability = Literal["send", "full", "normal"]
_ACCEPTED = "a sqlite3.Connection, a Connection or Session of SQLAlchemy on it, or Django's connection"

# Read and rendered once per process, however many brokers it opens.
_queries = cache(SqliteQueries)
_BUSY_SLICE = 0.008
"""SQLite's own waits double up to 100 ms, so a busy process can starve another: wait in short slices instead."""

_IDLE_READERS = 4
_STATEMENTS = 512
"""Prepared statements: an insert has one for each number of rows (see session.py)."""
_WAL_LIMIT = 64 << 20
_PAGE_BYTES = 2_048
"""A transaction writes whole pages: half of SQLite's default page size makes single messages an eighth faster (decision 15). Applies to
new files only; an existing file keeps its page size."""
_CHECKPOINT_PAGES = 4_000
"""8 MB. The same few pages are written repeatedly, and a later checkpoint writes each of them once; but while the log still grows, every
sync must also write the file's new size (decision 11)."""


class Sqlite(Dialect):
    name = "sqlite"
    has_one_writer = True
    settings_max_age_ms = 100
    tidy_every = 10

    def __init__(self, path: str, *, durability: Durability = "send", timeout: float = 30.0, must_exist: bool = False) -> None:
        """`must_exist`: do not create a file, and do not change the page size or journal mode of a file that may not be rowq's."""
        self.path = _checked(path, must_exist)
        self.timeout = timeout
        self._durability = durability
        self._queries = _queries()
        self._synchronous = ""
        self._idle_readers: list[sqlite3.Connection] = []
        self._busy_readers: set[sqlite3.Connection] = set()
        self._is_closed = False
        """A reader that was busy when the dialect was closed is closed after its transaction."""
        self._writer = self._open(_BUSY_SLICE)
        try:
            self._prepare(must_exist)
        except BaseException:
            self._writer.close()
            raise
        self._session = SqliteSession(self._writer, self._queries)
        self._control = self._writer.cursor()

    def writing(self, *, durable: bool, patient: bool = False) -> _Writing:  # noqa: ARG002  # no other transaction blocks for long
        return _Writing(self, durable)

    def lone(self) -> Callable[[Any, Any, Any], bool]:
        return Lone(self._queries, self.writing).perform

    def begin(self, durable: bool) -> SqliteSession:
        try:
            self.roll_back()  # an interrupt may have left the last transaction open
            self._set_synchronous(durable)
            try:
                self._control.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                self._insist("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        return self._session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        connection = self._take_reader()
        self._busy_readers.add(connection)
        try:
            connection.execute("BEGIN")
            yield SqliteSession(connection, self._queries)
            connection.execute("ROLLBACK")
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise translate(error, self.path) from error
            raise
        finally:
            self._busy_readers.discard(connection)
        self._idle_readers.append(connection)
        self._close_readers(beyond=0 if self._is_closed else _IDLE_READERS)

    @contextmanager
    def joining(self, connection: Any) -> Iterator[Session]:
        try:
            self._check_joinable(connection)
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
            connection.execute("SAVEPOINT rowq")
            try:
                yield SqliteSession(connection, self._queries)
            except BaseException:
                connection.execute("ROLLBACK TO rowq")
                raise
            finally:
                connection.execute("RELEASE rowq")
        except sqlite3.Error as error:
            raise translate(error, self.path) from error

    def migrating(self) -> _Writing:
        return self.writing(durable=True)

    def news(self) -> int:
        """data_version changes only when another connection has committed: that of another process, or the application's own."""
        version: int = self._writer.execute("PRAGMA data_version").fetchone()[0]
        return version

    def tidy(self, *, thoroughly: bool) -> None:
        try:
            if thoroughly:
                self._writer.execute("PRAGMA optimize")
            if self.wal_bytes() > _WAL_LIMIT:
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            if not is_busy(error):
                raise translate(error, self.path) from error

    def wal_bytes(self) -> int:
        with suppress(FileNotFoundError):
            return Path(self.path + "-wal").stat().st_size
        return 0

    def examine(self) -> list[Finding]:
        connection = self._open_reader()
        try:
            return examine(connection, self.path, self._durability)
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        finally:
            connection.close()

    def leave_to_parent(self) -> None:
        if self._busy_readers:
            _unsafe_here.add(self.path)  # a thread of the parent was reading: its connection cannot be closed in this process
        self.close()

    def close(self) -> None:
        self._is_closed = True
        self._close_readers(beyond=0)
        self._writer.close()

    def _close_readers(self, beyond: int) -> None:
        with suppress(IndexError):  # another thread has closed the last one
            while len(self._idle_readers) > beyond:
                self._idle_readers.pop().close()

    def _open(self, busy_timeout: float) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self.path, timeout=busy_timeout, isolation_level=None, check_same_thread=False, cached_statements=512
            )
            connection.execute("PRAGMA temp_store = MEMORY")
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        return connection

    def _take_reader(self) -> sqlite3.Connection:
        try:
            return self._idle_readers.pop()
        except IndexError:
            return self._open_reader()

    def _open_reader(self) -> sqlite3.Connection:
        connection = self._open(self.timeout)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _prepare(self, must_exist: bool) -> None:
        try:
            if not must_exist:
                self._insist(f"PRAGMA page_size = {_PAGE_BYTES}")
                self._insist("PRAGMA journal_mode = WAL")
            self._insist("PRAGMA optimize = 0x10002")
            self._insist(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            self._insist("PRAGMA secure_delete = FAST")  # some builds overwrite every freed page
            mode = self._writer.execute("PRAGMA journal_mode").fetchone()[0]
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        if mode != "wal" and not must_exist:
            raise StoreUnavailable(f"{self.path} cannot use a write-ahead log here: put it on a local disk, not on a network share")

    def _set_synchronous(self, durable: bool) -> None:
        full = self._durability == "full" or (durable and self._durability == "send")
        wanted = "FULL" if full else "NORMAL"
        if wanted != self._synchronous:
            self._writer.execute(f"PRAGMA synchronous = {wanted}")
            self._synchronous = wanted

    def _insist(self, statement: str) -> None:
        """Repeats a statement while another connection has locked the file, until the timeout."""
        deadline = None
        while True:
            try:
                self._writer.execute(statement)
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                deadline = deadline or time.monotonic() + self.timeout
                if time.monotonic() > deadline:
                    raise StoreBusy(
                        f"{self.path} was locked by another connection for {self.timeout:g} s; nothing was written: "
                        "look for a long transaction in another program, or in this one around broker.within()"
                    ) from error
                time.sleep(random.random() * 0.001)

    def commit(self) -> None:
        try:
            self._control.execute("COMMIT")
        except sqlite3.Error as error:
            self.roll_back()
            if is_disk_error(error):
                raise OutcomeUnknown(f"the disk failed while committing to {self.path}: it may or may not have been written") from error
            raise translate(error, self.path) from error

    def roll_back(self) -> None:
        if self._writer.in_transaction:
            with suppress(sqlite3.Error):
                self._writer.execute("ROLLBACK")

    def _check_joinable(self, connection: Any) -> None:
        if not isinstance(connection, sqlite3.Connection):
            raise refusal(connection, _ACCEPTED, self.path)
        # From Python 3.12 on, `autocommit=True` also makes commit() and rollback() do nothing.
        commits_by_itself = connection.isolation_level is None or getattr(connection, "autocommit", None) is True
        if commits_by_itself and not connection.in_transaction:
            raise InvalidArgument("this connection has no open transaction: execute BEGIN IMMEDIATE first")
        if connection.text_factory is not str:
            raise InvalidArgument("within() needs a connection whose text_factory is str, as it is by default")
        cursor = connection.cursor()
        cursor.row_factory = None
        file = next((row[2] for row in cursor.execute("PRAGMA database_list") if row[1] == "main"), "")
        if not file or not Path(file).samefile(self.path):
            raise InvalidArgument(
                f"within() needs a connection to {self.path}, where the queue lives; this one is open on {file or 'memory'}"
            )


class _Writing:
    """A transaction of the single writer. A class, because a generator would cost as much as a query."""

    __slots__ = ("_dialect", "_durable")

    def __init__(self, dialect: Sqlite, durable: bool) -> None:
        self._dialect = dialect
        self._durable = durable

    def __enter__(self) -> SqliteSession:
        return self._dialect.begin(self._durable)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self._dialect.commit()
            return
        self._dialect.roll_back()
        if isinstance(error, sqlite3.Error):
            raise translate(error, self._dialect.path) from error


_unsafe_here: set[str] = set()
"""Files that this process, a forked child, inherited open and could not close."""


def _checked(path: str, must_exist: bool) -> str:
    if not path or path == ":memory:":
        raise InvalidArgument("rowq keeps its messages in a file: give a path, such as sqlite:///jobs.db")
    absolute = Path(path).absolute()
    if str(absolute) in _unsafe_here:
        raise StoreUnavailable(
            f"this process was forked while its parent was reading {absolute}, and SQLite cannot open it safely here: "
            "fork before reading, or start workers with spawn"
        )
    if absolute.is_dir():
        raise StoreUnavailable(f"{absolute} is a folder: name a file in it")
    if not absolute.parent.is_dir():
        raise StoreUnavailable(f"the folder {absolute.parent} does not exist: create it first")
    if must_exist and not absolute.exists():
        raise StoreUnavailable(f"there is no database at {absolute}: is the path right? The first send creates one, or `rowq migrate`")
    return str(absolute)
