"""What database servers have in common: many processes on many hosts write at the same time and share the server's clock."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from rowq.clock import SharedClock, running
from rowq.store.dialect import Dialect, Session
from rowq.store.server.connections import Connection

_LEARN_EVERY = 60.0
"""Seconds between two looks at the database's clock."""


class Carrier(Connection, Protocol):
    """A connection with its session, which it keeps from transaction to transaction."""

    @property
    def session(self) -> Session: ...


C = TypeVar("C", bound=Carrier)


class ServerDialect(Dialect, Generic[C]):
    has_one_writer = False
    settings_max_age_ms = 1_000

    def __init__(self) -> None:
        self._clock = SharedClock()
        self._identity: int | None = None

    def writing(self, *, durable: bool, patient: bool = False) -> Writing[C]:
        return Writing(self, durable, patient)

    @abstractmethod
    def begin(self, durable: bool, patient: bool) -> C: ...

    @abstractmethod
    def commit(self, connection: C) -> None: ...

    @abstractmethod
    def roll_back(self, connection: C, error: BaseException) -> None:
        """Raises rowq's translation if the error is the driver's."""

    def asking(self) -> AbstractContextManager[Session]:
        """A session for a single query."""
        return self.reading()

    def news(self) -> int:
        """Changes every second, because other processes write all the time."""
        return int(running())

    def find_ready(self, topics: Sequence[str]) -> list[str]:
        with self.asking() as session:
            return [row[0] for row in session.rows("find_ready", queues=list(topics))]

    def clock(self) -> SharedClock:
        self.learn_time()
        return self._clock

    def identity(self) -> int:
        if self._identity is None:
            self._identity = super().identity()
        return self._identity

    def is_time_old(self) -> bool:
        return self._clock.learned_at is not None and running() - self._clock.learned_at > _LEARN_EVERY

    def keep_time(self) -> None:
        if self.is_time_old():
            self.learn_time()

    def learn_time(self) -> None:
        with self.asking() as session:
            self._clock.learn(lambda: float(session.rows("read_clock")[0][0]))


class Writing(Generic[C]):
    """A transaction of an executor. A class, because a generator would cost as much as a query."""

    __slots__ = ("_connection", "_dialect", "_durable", "_patient")

    def __init__(self, dialect: ServerDialect[C], durable: bool, patient: bool) -> None:
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
