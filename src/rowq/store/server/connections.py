"""A pool of connections to a server: opened when needed, kept while they work, opened again when the server comes back."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from rowq.clock import running
from rowq.errors import RowqError, StoreUnavailable

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_MOST_IDLE = 8


class Connection(Protocol):
    @property
    def is_usable(self) -> bool:
        """Whether it may be used again, as far as can be told without asking the server."""

    def close(self) -> None:
        """Never raises."""


C = TypeVar("C", bound=Connection)
T = TypeVar("T")


class Refused(Exception):
    """Connecting failed: why, and whether another attempt may succeed. A restarting server comes back, a wrong password stays wrong."""

    def __init__(self, error: RowqError, *, may_pass: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.may_pass = may_pass


class Connections(ABC, Generic[C]):
    """The connections of one process. Idle ones are reused, the most recent first."""

    def __init__(self, where: str, timeout: float) -> None:
        self.where = where
        self._timeout = timeout
        self._idle: list[C] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_hurried = threading.Event()

    @abstractmethod
    def _open(self) -> C:
        """Opens a connection, or raises Refused."""

    def take(self) -> C:
        while True:
            with self._lock:
                if self._is_closed:
                    raise StoreUnavailable(f"the connections to {self.where} are closed")
                if not self._idle:
                    break
                connection = self._idle.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return self.open()

    def give_back(self, connection: C) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    @contextmanager
    def taken(self) -> Iterator[C]:
        """Takes a connection and gives it back; after an error it is closed instead."""
        connection = self.take()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self.give_back(connection)

    def open(self) -> C:
        """Opens a connection. While the server is unreachable it tries again, with growing pauses, until the timeout."""
        return self._insist(self._open)

    def hurry(self) -> None:
        """The process is about to end: from now on no call waits for an unreachable server."""
        self._is_hurried.set()

    def _insist(self, attempt: Callable[[], T]) -> T:
        deadline, pause = running() + self._timeout, _FIRST_PAUSE
        while True:
            try:
                return attempt()
            except Refused as refused:
                if self._is_closed or self._is_hurried.is_set() or not refused.may_pass or running() + pause > deadline:
                    raise refused.error from refused.__cause__
            self._is_hurried.wait(pause * (0.5 + random.random()))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def open_at_once(self) -> C:
        """Opens the first connection: an error is raised at once, without another attempt."""
        try:
            return self._open()
        except Refused as refused:
            raise refused.error from refused.__cause__

    def forget_idle(self) -> None:
        """Closes idle connections: after one has broken, the others most likely have too."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def leave_to_parent(self) -> None:
        """Closing them would end the parent's sessions, so they are kept and never used again."""
        _inherited.extend(self._idle)
        self._idle = []
        self._is_closed = True
        self._lock = threading.Lock()
        self._is_hurried = threading.Event()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self.forget_idle()


_inherited: list[Connection] = []
"""Connections inherited by a forked child."""
