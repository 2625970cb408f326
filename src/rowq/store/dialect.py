"""Everything that differs between SQL databases; all other modules are the same for each.

Ask a dialect what it can do, never which one it is. The dialects are in sqlite/, postgresql/ and mariadb/.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import msgspec

from rowq.clock import Clock, SystemClock
from rowq.errors import InvalidArgument
from rowq.model.member import Share
from rowq.store.notify.notifier import Notifier, Place

if TYPE_CHECKING:
    import pyarrow as pa


Row = tuple[Any, ...]
T = TypeVar("T")


class Finding(msgspec.Struct, frozen=True):
    """One result of `rowq doctor`."""

    check: str
    ok: bool
    detail: str
    advice: str | None = None


class Slots(msgspec.Struct, frozen=True):
    """The leases that one claim may hand out, one for each message, in order."""

    tokens: list[int]
    untils: list[int]
    consumers: list[str | None]
    actors: list[str | None]
    """The actors for the audit, if the queue has one."""
    mark: int
    is_audited: bool
    is_counted: bool
    """Whether the meter needs to know since when each message has been waiting."""
    is_all_or_none: bool = False
    """Lease nothing if one of the messages must be checked first."""
    share: Share | None = None
    """Claim only messages of this share, among the first messages of the queue."""


class Acks(msgspec.Struct, frozen=True):
    """Receipts that one statement may ack, by seq: these queues keep nothing of an acked message."""

    seqs: list[int]
    tokens: list[int]
    queues: list[str]
    audited: list[str]
    now: int
    actor: str | None


class Session(ABC):
    """A connection inside a transaction: it runs queries by name."""

    is_alone: ClassVar[bool]
    """Whether no other transaction can write while this one runs. Then rows need no locks, and taken rows are contiguous in the index."""

    does_at_once: ClassVar[bool] = False
    """Whether the session implements `claim`, `ack_all` and `ack_each`, which replace several statements by one."""

    writes_runs: ClassVar[bool] = False
    """Whether the same event of many messages is written as runs of the audit that the caller makes (see store/row.py)."""

    @abstractmethod
    def rows(self, query: str, /, **values: Any) -> list[Row]:
        """Returns all rows of a query. A list value fills a parameter like `:seqs[]`."""

    @abstractmethod
    def run(self, query: str, /, **values: Any) -> int:
        """Returns how many rows were written."""

    def write(self, query: str, /, **values: Any) -> None:
        """The same without the count."""
        self.run(query, **values)

    @abstractmethod
    def many(self, query: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        """Runs a query once for each row; the values of a row are in the order of `columns`."""

    @abstractmethod
    def stream(self, query: str, /, **values: Any) -> Iterator[Row]:
        """Yields the rows one by one, in constant memory."""

    @abstractmethod
    def install(self, statements: Sequence[str]) -> None:
        """Runs the statements of a schema."""

    def row(self, query: str, /, **values: Any) -> Row | None:
        found = self.rows(query, **values)
        return found[0] if found else None

    def take_ready(self, queue: str, place: Place, limit: int) -> list[Row]:
        """Locks and returns the first ready rows from a place on, skipping rows locked by other transactions."""
        return self.rows("take_ready", queue=queue, ranking=place[0], position=place[1], limit=limit)

    def claim(self, queue: str, place: Place, slots: Slots, now: int) -> list[Row]:
        """Leases the first messages from a place on, one per slot, and returns them as `row.to_deliveries` takes them. A row without a
        token was only locked, because its TTL or deadline must be checked first: its slot stays empty. Rows of a share also carry the
        place of the queue's head."""
        raise NotImplementedError

    def ack_all(self, acks: Acks) -> set[int] | None:
        """Removes leased messages without options. Returns the tokens of those that were removed; None if all of them were."""
        raise NotImplementedError

    def ack_each(self, acks: Acks) -> list[Row]:
        """The same; returns (seq, token, queue, leased_at) of each message that was removed."""
        raise NotImplementedError

    def slowly(self, function: Callable[[], T]) -> T:
        """Runs a slow function that does not use the database."""
        return function()

    def elsewhere_ms(self) -> int:
        """How long, so far, the event loop was busy elsewhere while this session waited for the database."""
        return 0

    def insert_leased_alike(self, tokens: dict[int, int], values: dict[str, Any]) -> None:
        """Inserts leases that differ only in seq and token."""
        columns = ("seq", "token", *values, "expires_at", "error")
        self.many("insert_leased", columns, [(seq, token, *values.values(), None, None) for seq, token in tokens.items()])

    def draw_seqs(self, count: int) -> int:
        """Draws `count` numbers that were never drawn before; returns the first."""
        last: int = self.rows("draw_seqs", count=count)[0][0]
        return last - count + 1


class Dialect(ABC):
    """One database: its connections, transactions and peculiarities."""

    name: ClassVar[str]

    has_one_writer: ClassVar[bool]
    """Whether write transactions run one after another. Otherwise each verb has an executor of its own."""

    settings_max_age_ms: ClassVar[int]
    """How old the settings used by a transaction may be."""

    tidy_every: ClassVar[int]
    """Seconds between two calls of `tidy`."""

    can_bridge: ClassVar[bool] = False
    """Whether its sessions can run on an event loop (see store/server/greenlet_bridge.py)."""

    timeout: float
    """How many seconds a call waits for a busy database."""

    @abstractmethod
    def writing(self, *, durable: bool, patient: bool = False) -> AbstractContextManager[Session]:
        """A transaction that is committed at the end, on disk if durable, or rolled back on any error. An impatient one raises
        WouldWait if another transaction blocks it for long."""

    has_autocommit: ClassVar[bool] = False
    """Whether `autocommitting` may give a session: claims and acks are then tried as one statement, without a transaction around it."""

    def autocommitting(self) -> AbstractContextManager[Session] | None:
        """A session in which every statement is a transaction of its own, with full durability; None if the database has none."""
        return None

    def lone(self) -> Callable[[Any, Any, Any], bool] | None:
        """A shorter way for a call that is alone in its transaction, if the dialect has one. Takes the call, the store and the policies;
        returns False, with nothing written, if the call needs the general way."""
        return None

    def pause(self, seconds: float) -> None:
        """Waits before another attempt."""
        time.sleep(seconds)

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """A consistent snapshot that never waits for a writer."""

    @abstractmethod
    def joining(self, connection: Any) -> AbstractContextManager[Session]:
        """The caller's own open transaction: on an error this part is rolled back; the caller commits."""

    @abstractmethod
    def migrating(self) -> AbstractContextManager[Session]:
        """A transaction during which no other process migrates."""

    @abstractmethod
    def news(self) -> int:
        """A number that changes whenever another connection may have written. Called only inside a write transaction."""

    def find_ready(self, topics: Sequence[str]) -> list[str]:  # noqa: ARG002
        """The topics that have messages now, for databases without a notifier."""
        return []

    def identity(self) -> int:
        """The number that identifies this database; created together with its tables."""
        with self.reading() as session:
            return int(session.rows("read_identity")[0][0])

    def clock(self) -> Clock:
        """The clock shared by all processes that use this database."""
        return SystemClock()

    def notifier(self) -> Notifier | None:
        """The database's own way of notifying other processes, if it has one."""
        return None

    def arrow(self) -> ArrowDriver | None:
        """The database's own way of reading and writing tables as Arrow, if it has one and its driver is installed."""
        return None

    def watermark(self) -> Watermark:
        """Tells up to which line history and audit are complete."""
        return OneWriterWatermark(self.reading)

    def install_peq(self, queue: str) -> None:  # noqa: ARG002
        """Creates procedures and views in a schema of the queue's name, if the database can have them (see postgresql/peq.py)."""
        raise InvalidArgument("PEQ's procedures are for PostgreSQL: give the URL of such a database, postgresql://…")

    @abstractmethod
    def tidy(self, *, thoroughly: bool) -> None:
        """Maintains files and statistics; thoroughly once an hour."""

    @abstractmethod
    def examine(self) -> list[Finding]:
        """Finds what slows down or endangers queues on this database, with advice for each."""

    @abstractmethod
    def leave_to_parent(self) -> None:
        """In the child of a fork: drops the inherited connections, all of them idle, without disturbing the parent."""

    def hurry(self) -> None:  # noqa: B027  # a file is always reachable
        """The broker is closing: from now on no call waits for an unreachable database."""

    @abstractmethod
    def close(self) -> None: ...


class Snapshot(Protocol):
    def batches(self, query: str, columns: list[str], values: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """Yields all rows of a query in tabular.sql with at least these columns, in the types of the database."""


class Reader(Protocol):
    def reading(self) -> AbstractContextManager[Snapshot]:
        """A consistent snapshot for any number of queries, one after another."""

    def close(self) -> None: ...


class ArrowDriver(Reader, Protocol):
    """A database's own Arrow driver, on a connection of its own."""

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Adds rows to a table and commits them; the columns have the names of the table's."""


PATIENCE = 1.0
"""How many seconds a caller waits at most for open transactions."""


class Watermark(Protocol):
    def settled(self, kind: str) -> int:
        """The last line of `history` or `audit` below which no open transaction can still add one, or an earlier line; never a later
        one. The transactions it waits for are remembered, and a later call continues from there."""


class OneWriterWatermark:
    """For databases whose write transactions run one after another: every line up to the last one is settled."""

    def __init__(self, reading: Callable[[], AbstractContextManager[Any]]) -> None:
        self._reading = reading

    def settled(self, kind: str) -> int:
        with self._reading() as session:
            return int(session.rows(f"last_line_{kind}")[0][0])
