"""Everything that may differ between one SQL database and another. Nothing else may.

Ask a dialect what it can, never who it is. SQLite is the first (sqlite.py); servers are other files beside it.
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
    """One thing that `rowq doctor` looked at."""

    check: str
    ok: bool
    detail: str
    advice: str | None = None


class Slots(msgspec.Struct, frozen=True):
    """What is ready to be given out by one claim: a lease for each message that may come, in order."""

    tokens: list[int]
    untils: list[int]
    consumers: list[str | None]
    actors: list[str | None]
    """Who is written into the audit, where there is one."""
    mark: int
    is_audited: bool
    is_counted: bool
    """Whether somebody wants to know since when each has been waiting."""
    is_all_or_none: bool = False
    """Nothing is leased where one must be looked at first."""
    share: Share | None = None
    """Only what is of a share, of the first messages that are looked at for it."""


class Acks(msgspec.Struct, frozen=True):
    """Receipts that may be settled at once, by seq: in these queues nothing is kept of a message."""

    seqs: list[int]
    tokens: list[int]
    queues: list[str]
    audited: list[str]
    now: int
    actor: str | None


class Session(ABC):
    """A connection inside a transaction: it runs queries by name."""

    is_alone: ClassVar[bool]
    """Whether nobody else can write while this transaction runs. Then nothing needs a lock, and what is taken stands without gaps."""

    does_at_once: ClassVar[bool] = False
    """Whether `claim` and `ack` do in one statement what else takes several."""

    @abstractmethod
    def rows(self, query: str, /, **values: Any) -> list[Row]:
        """All rows of a query. A list among the values fills a parameter like `:seqs[]`."""

    @abstractmethod
    def run(self, query: str, /, **values: Any) -> int:
        """How many rows were written."""

    def write(self, query: str, /, **values: Any) -> None:
        """The same where nobody asks how many."""
        self.run(query, **values)

    @abstractmethod
    def many(self, query: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        """Runs a query once for each row; the values of a row stand in the order of `columns`."""

    @abstractmethod
    def stream(self, query: str, /, **values: Any) -> Iterator[Row]:
        """The rows one after another, in constant memory."""

    @abstractmethod
    def install(self, statements: Sequence[str]) -> None:
        """Runs the statements of a schema."""

    def row(self, query: str, /, **values: Any) -> Row | None:
        found = self.rows(query, **values)
        return found[0] if found else None

    def take_ready(self, queue: str, place: Place, limit: int) -> list[Row]:
        """The first ready rows from a place on, locked; those that somebody else has locked are passed over."""
        return self.rows("take_ready", queue=queue, ranking=place[0], position=place[1], limit=limit)

    def claim(self, queue: str, place: Place, slots: Slots, now: int) -> list[Row]:
        """Leases the first messages from a place on, one a slot, and gives them as `rows.to_deliveries` takes them. One without a
        token was locked only, since its time must be looked at first: its slot stays empty. Those of a share come each with the place
        of the head of the queue."""
        raise NotImplementedError

    def ack_all(self, acks: Acks) -> set[int] | None:
        """Removes leased messages that nothing hangs on. Gives the tokens of those that went; None when all of them did."""
        raise NotImplementedError

    def ack_each(self, acks: Acks) -> list[Row]:
        """The same, and tells of each that went: (seq, token, queue, leased_at)."""
        raise NotImplementedError

    def slowly(self, function: Callable[[], T]) -> T:
        """Does what takes a while and is none of the database's."""
        return function()

    def elsewhere_ms(self) -> int:
        """For how long whoever waits for the database was busy with something else, so far."""
        return 0

    def insert_leased_alike(self, tokens: dict[int, int], values: dict[str, Any]) -> None:
        """Leases that differ in nothing but seq and token."""
        columns = ("seq", "token", *values, "expires_at", "error")
        self.many("insert_leased", columns, [(seq, token, *values.values(), None, None) for seq, token in tokens.items()])

    def draw_seqs(self, count: int) -> int:
        """Draws `count` numbers that were never given before; returns the first."""
        last: int = self.rows("draw_seqs", count=count)[0][0]
        return last - count + 1


class Dialect(ABC):
    """One database: its connections, its transactions, its habits."""

    name: ClassVar[str]

    has_one_writer: ClassVar[bool]
    """Whether transactions that write come one after another. Where they need not, each verb has a lane of its own."""

    settings_max_age_ms: ClassVar[int]
    """How old the settings that a transaction goes by may be."""

    tidy_every: ClassVar[int]
    """Seconds between two times that `tidy` is called."""

    can_bridge: ClassVar[bool] = False
    """Whether it can be waited for inside an event loop (see store/server/greenlet_bridge.py)."""

    timeout: float
    """How many seconds a call waits for a busy database."""

    @abstractmethod
    def writing(self, *, durable: bool, patient: bool = False) -> AbstractContextManager[Session]:
        """A transaction that is committed at the end, on disk if durable, or rolled back on any error. An impatient one raises
        WouldWait where somebody else's transaction stands in its way for long."""

    def autocommitting(self) -> AbstractContextManager[Session] | None:
        """A session in which every statement is a transaction of its own, where that is as durable as any; None where it is not."""
        return None

    def pause(self, seconds: float) -> None:
        """Before a second try."""
        time.sleep(seconds)

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """A consistent view that never waits for a writer."""

    @abstractmethod
    def joining(self, connection: Any) -> AbstractContextManager[Session]:
        """The caller's own open transaction: undone on an error, and committed by the caller."""

    @abstractmethod
    def migrating(self) -> AbstractContextManager[Session]:
        """A transaction in which nobody else migrates."""

    @abstractmethod
    def news(self) -> int:
        """A number that changes whenever somebody else may have written. Asked by whoever is allowed to write."""

    def find_ready(self, topics: Sequence[str]) -> list[str]:  # noqa: ARG002
        """Those of the topics that have something now, where no herald tells of it."""
        return []

    def identity(self) -> int:
        """The number that tells this database, once its tables are made, from all others."""
        with self.reading() as session:
            return int(session.rows("read_identity")[0][0])

    def clock(self) -> Clock:
        """The time that all who use this database agree on."""
        return SystemClock()

    def notifier(self) -> Notifier | None:
        """The database's own way of telling other processes, where it has one."""
        return None

    def arrow(self) -> ArrowDriver | None:
        """The database's own way of giving and taking whole tables as Arrow, where it has one and its driver is installed."""
        return None

    def watermark(self) -> Watermark:
        """How far the logs are settled."""
        return OneWriterWatermark(self.reading)

    def make_door(self, queue: str) -> None:  # noqa: ARG002
        """Procedures and views in a schema of the queue's name, where the database can have them (see peq.py)."""
        raise InvalidArgument("PEQ's procedures are for PostgreSQL: give the URL of such a database, postgresql://…")

    @abstractmethod
    def tidy(self, *, thoroughly: bool) -> None:
        """Keeps files and statistics in shape; thoroughly once an hour."""

    @abstractmethod
    def examine(self) -> list[Finding]:
        """What hurts queues on this database, each with what to do."""

    @abstractmethod
    def leave_to_parent(self) -> None:
        """In the child of a fork: lets go of inherited connections, all of them idle, without touching what the parent does."""

    def hurry(self) -> None:  # noqa: B027  # a file is never away
        """The broker is about to be closed: from now on nobody waits for a database that is away."""

    @abstractmethod
    def close(self) -> None: ...


class Snapshot(Protocol):
    def batches(self, query: str, columns: list[str], values: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """All rows of one of the queries of tabular.sql, with these columns at least, of whatever type the database has for them."""


class Reader(Protocol):
    def reading(self) -> AbstractContextManager[Snapshot]:
        """A consistent view for any number of queries, one after another."""

    def close(self) -> None: ...


class ArrowDriver(Reader, Protocol):
    """A database's own way, on a connection of its own."""

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Adds rows to a table, at once and for good; the columns have the names of the table's."""


PATIENCE = 1.0
"""How many seconds somebody who asks waits at most for open transactions."""


class Watermark(Protocol):
    def settled(self, kind: str) -> int:
        """The last settled line of `history` or `audit`, or an older one: never a later one, whatever is open elsewhere. What it waits
        for is remembered, and a later question goes on from there."""


class OneWriterWatermark:
    """Transactions that write come one after another: what is there is all that will ever be below it."""

    def __init__(self, reading: Callable[[], AbstractContextManager[Any]]) -> None:
        self._reading = reading

    def settled(self, kind: str) -> int:
        with self._reading() as session:
            return int(session.rows(f"last_line_{kind}")[0][0])
