"""Everything that may differ between one SQL database and another. Nothing else may.

Ask a dialect what it can, never who it is. SQLite is the first (sqlite.py); a server is another file beside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import msgspec

Row = tuple[Any, ...]


class Finding(msgspec.Struct, frozen=True):
    """One thing that `rowq doctor` looked at."""

    check: str
    ok: bool
    detail: str
    advice: str | None = None


class Session(ABC):
    """A connection inside a transaction: it runs queries by name."""

    hands_out_runs: ClassVar[bool]
    """Whether take_ready gives rows as they stand in the index, without gaps: nobody else can have locked one in between."""

    @abstractmethod
    def rows(self, query: str, /, **values: Any) -> list[Row]:
        """All rows of a query. A list among the values fills a parameter like `:seqs[]`."""

    @abstractmethod
    def run(self, query: str, /, **values: Any) -> int:
        """How many rows were written."""

    @abstractmethod
    def many(self, query: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        """Runs a query once for each row; the values of a row stand in the order of `columns`."""

    @abstractmethod
    def stream(self, query: str, /, **values: Any) -> Iterator[Row]:
        """The rows one after another, in constant memory."""

    def row(self, query: str, /, **values: Any) -> Row | None:
        found = self.rows(query, **values)
        return found[0] if found else None

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

    settings_max_age_ms: ClassVar[int]
    """How old the settings that a transaction goes by may be."""

    timeout: float
    """How many seconds a call waits for a busy database."""

    @abstractmethod
    def writing(self, *, durable: bool) -> AbstractContextManager[Session]:
        """A transaction that is committed at the end, on disk if durable, or rolled back on any error."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """A consistent view that never waits for a writer."""

    @abstractmethod
    def joining(self, connection: Any) -> AbstractContextManager[Session]:
        """The caller's own open transaction: undone on an error, and committed by the caller."""

    @abstractmethod
    def install(self, statements: Sequence[str]) -> None:
        """Runs the statements of a schema inside the transaction that is open."""

    @abstractmethod
    def news(self) -> int:
        """A number that changes whenever somebody else has written. Asked by whoever is allowed to write."""

    @abstractmethod
    def tidy(self, *, thoroughly: bool) -> None:
        """Keeps files and statistics in shape; thoroughly once an hour."""

    @abstractmethod
    def examine(self) -> list[Finding]:
        """What hurts queues on this database, each with what to do."""

    @abstractmethod
    def leave_to_parent(self) -> None:
        """In the child of a fork: lets go of inherited connections, all of them idle, without touching what the parent does."""

    @abstractmethod
    def close(self) -> None: ...
