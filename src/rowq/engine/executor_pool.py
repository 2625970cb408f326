"""Executors: where a database allows several writers, each kind of call has its own executors.

Sends need not wait for receives, receives for acks, or any of them for maintenance. Small calls of a kind share one executor, since
they are cheap together; a call that is a batch by itself takes any free executor of its kind. A call that would wait for another
open transaction (of an application that holds a key, say) moves to a slow executor, where it delays no other call. Small calls of
event loops need no executor where the loop itself can wait for the database (async_group_commit.py).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from rowq.engine.call_queue import Perform
from rowq.engine.group_commit import GroupCommit
from rowq.store.call import Call, Execute, Receive, Send, Settle

if TYPE_CHECKING:
    from rowq.engine.async_group_commit import AsyncGroupCommit

T = TypeVar("T")

WIDTH: dict[type[Call[Any]], int] = {Send: 2, Receive: 2, Settle: 2, Execute: 1}
"""How many executors each kind has."""
LARGE = 50
"""A call with this many rows is a batch by itself."""


class ExecutorPool:
    def __init__(self, perform: Callable[[bool], Perform], *, timeout: float, has_async_group_commits: bool) -> None:
        """`perform(patient)` creates what performs the calls of one executor."""
        self._slow = GroupCommit(perform(True), timeout=timeout)
        self._fast = {
            kind: [GroupCommit(perform(False), timeout=timeout, slow=self._slow) for _ in range(width)] for kind, width in WIDTH.items()
        }
        self._all = [*(executor for executors in self._fast.values() for executor in executors), self._slow]
        self._async_group_commits = _async_group_commits(lambda: perform(False), timeout, self._slow) if has_async_group_commits else {}

    def run(self, call: Call[T]) -> T:
        return self._choose(call).run(call)

    def run_async(self, call: Call[T]) -> Coroutine[Any, Any, T]:
        async_group_commit = self._async_group_commits.get(type(call)) if call.rows < LARGE else None
        return self._choose(call).run_async(call) if async_group_commit is None else async_group_commit.run_async(call)

    def _choose(self, call: Call[Any]) -> GroupCommit:
        executors = self._fast[type(call)]
        return executors[0] if call.rows < LARGE else min(executors, key=GroupCommit.burden)

    def if_idle(self, function: Callable[[], T]) -> T | None:
        """There is no single writer to wait for."""
        return None if self._slow.is_forked else function()

    def check_open(self) -> None:
        self._slow.check_open()

    @property
    def is_forked(self) -> bool:
        return self._slow.is_forked

    def watch(self, abandoned: Callable[[Call[Any]], None], forked: Callable[[], None]) -> None:
        for executor in self._all:
            executor.watch(abandoned, forked)
        for async_group_commit in self._async_group_commits.values():
            async_group_commit.abandoned = abandoned

    def close(self, finish: Callable[[], None]) -> None:
        for async_group_commit in self._async_group_commits.values():
            async_group_commit.close()
        for executor in self._all[:-1]:
            executor.close(_nothing)
        self._slow.close(finish)


def _async_group_commits(make: Callable[[], Perform], timeout: float, slow: GroupCommit) -> dict[type[Call[Any]], AsyncGroupCommit]:
    from rowq.engine.async_group_commit import AsyncGroupCommit

    return {kind: AsyncGroupCommit(make, timeout=timeout, slow=slow) for kind in (Send, Receive, Settle)}


def _nothing() -> None:
    """The database is closed with the last executor."""
