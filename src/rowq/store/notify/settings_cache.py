"""The second-level cache of settings: what one process has read from the database, others find in Redis for half a minute.

An entry has the version of the settings in its key. Every change of settings raises that version, so an entry is never out of date: it is
merely no longer used. For this to hold, `put` only what a transaction read after the version, and never in a transaction that has changed
settings itself: it may be rolled back, and its version given to another change.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from enum import Enum
from typing import Any, ClassVar, Final

from rowq.store.notify.redis_connection import RedisAway, RedisConnection

KEPT = 30.0
PATIENCE = 0.05
"""Seconds that a caller waits: it has a transaction open."""
REST = 5.0
"""Seconds after a failure during which Redis is not asked."""
TIMEOUT = 1.0
MAX_TASKS = 100

_ABSENT = b"-"
_STORED = b"s"

_log = logging.getLogger("rowq.redis")


class Missing(Enum):
    MISSING = "the cache does not know"


MISSING: Final = Missing.MISSING


class SettingsCache(ABC):
    """Never raises, and never delays a caller for more than a moment."""

    is_afar: ClassVar[bool] = True
    """Whether `get` may take that moment."""

    @abstractmethod
    def get(self, version: int, queue: str) -> bytes | Missing | None:
        """The settings as stored; None for a queue that has no row."""

    @abstractmethod
    def put(self, version: int, queue: str, settings: bytes | None) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def leave_to_parent(self) -> None:
        """In the child of a fork: the cache is empty and unused from now on."""


class NoSettingsCache(SettingsCache):
    """Without Redis, settings are read from the database."""

    is_afar = False

    def get(self, version: int, queue: str) -> bytes | Missing | None:  # noqa: ARG002
        return MISSING

    def put(self, version: int, queue: str, settings: bytes | None) -> None: ...

    def close(self) -> None: ...

    def leave_to_parent(self) -> None: ...


class RedisSettingsCache(SettingsCache):
    """Asks Redis in a thread of its own, so that slow name resolution or a slow handshake cannot delay a transaction."""

    def __init__(self, url: str, namespace: str) -> None:
        self._prefix = f"rowq:{namespace}:settings:"
        self._connection = RedisConnection(url, TIMEOUT)
        self._changed = threading.Condition()
        self._tasks: deque[_Task] = deque()
        self._rests_until = 0.0
        self._is_refusal_told = False
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def get(self, version: int, queue: str) -> bytes | Missing | None:
        task = _Task("GET", self._key(version, queue))
        if version < 0 or not self._give(task):
            return MISSING
        if not task.done.wait(PATIENCE):
            self._rest()
            return MISSING
        return _read(task.answer)

    def put(self, version: int, queue: str, settings: bytes | None) -> None:
        """Written in the background."""
        if version >= 0:
            entry = _ABSENT if settings is None else _STORED + settings
            self._give(_Task("SET", self._key(version, queue), entry, "PX", int(KEPT * 1000)))

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._let_go()
            self._changed.notify()
        self._connection.cut()
        if self._thread is not None:
            self._thread.join(TIMEOUT)

    def leave_to_parent(self) -> None:
        self._is_closed = True
        self._changed = threading.Condition()
        self._tasks.clear()
        self._thread = None
        self._connection.leave_to_parent()

    def _key(self, version: int, queue: str) -> str:
        return f"{self._prefix}{version}:{queue}"

    def _give(self, task: _Task) -> bool:
        """False if the task is not accepted."""
        with self._changed:
            if self._is_closed or time.monotonic() < self._rests_until or len(self._tasks) >= MAX_TASKS:
                return False
            self._tasks.append(task)
            self._changed.notify()
            if self._thread is None:
                with suppress(RuntimeError):  # no thread can be had, as when the interpreter ends
                    thread = threading.Thread(target=self._run, name="rowq-redis-settings", daemon=True)
                    thread.start()
                    self._thread = thread
        return True

    def _run(self) -> None:
        while (task := self._next()) is not None:
            try:
                task.answer = self._connection.ask(*task.words)
                self._is_refusal_told = False
            except RedisAway as error:
                self._rest()
                self._tell_refusal(error)
            task.done.set()
        self._connection.hang_up()

    def _next(self) -> _Task | None:
        with self._changed:
            self._changed.wait_for(lambda: self._tasks or self._is_closed)
            return None if self._is_closed else self._tasks.popleft()

    def _rest(self) -> None:
        with self._changed:
            self._rests_until = time.monotonic() + REST
            self._let_go()

    def _let_go(self) -> None:
        while self._tasks:
            self._tasks.popleft().done.set()

    def _tell_refusal(self, error: RedisAway) -> None:
        """Logged once. The notifier already reports that Redis is unreachable; only this cache learns that Redis refuses entries."""
        if error.is_refusal and not self._is_refusal_told:
            self._is_refusal_told = True
            _log.warning("Redis does not keep settings, so each process reads them from the database: %s", error)


class _Task:
    __slots__ = ("answer", "done", "words")

    def __init__(self, *words: str | bytes | int) -> None:
        self.words = words
        self.answer: Any = None
        self.done = threading.Event()


def _read(entry: Any) -> bytes | Missing | None:
    if isinstance(entry, bytes):
        if entry.startswith(_STORED):
            return entry[len(_STORED) :]
        if entry == _ABSENT:
            return None
    return MISSING
