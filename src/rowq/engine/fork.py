"""Forks: a child process inherits connections that it must neither use nor leave open.

SQLite keeps its file locks in process memory. A child that reopened a file beside an inherited connection would believe it holds
locks that only its parent holds, and could lose writes. So no transaction is open while a process forks, and the child first closes
what it inherited.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class _Forkable(Protocol):
    def hold_still(self) -> None: ...

    def go_on(self) -> None: ...

    def be_forked(self) -> None: ...


class Forks:
    def __init__(self) -> None:
        self._watched: weakref.WeakSet[_Forkable] = weakref.WeakSet()
        self._one_at_a_time = threading.Lock()
        self._held: list[_Forkable] = []
        os.register_at_fork(before=self._before, after_in_parent=self._in_parent, after_in_child=self._in_child)

    def watch(self, one: _Forkable) -> None:
        self._watched.add(one)

    def _before(self) -> None:
        self._one_at_a_time.acquire()
        self._held = list(self._watched)
        for one in self._held:
            one.hold_still()

    def _in_parent(self) -> None:
        for one in self._held:
            one.go_on()
        self._held = []
        self._one_at_a_time.release()

    def _in_child(self) -> None:
        inherited = list(self._watched)  # includes those opened while the fork waited for its turn
        self._watched.clear()
        for one in inherited:
            one.be_forked()
        self._held = []
        self._one_at_a_time = threading.Lock()


forks = Forks()
