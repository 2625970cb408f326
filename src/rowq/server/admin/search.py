"""Searches that may have to read a whole queue. A page waits for one a moment, and asks again for the rest: nobody's request is held up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from rowq.errors import ServerUnavailable

T = TypeVar("T")

PATIENCE = 0.6
"""Seconds that a page waits for one."""
_MOST = 2
"""At a time: each has a thread for as long as it takes, of which the server has few."""
_KEPT = 30.0
"""Seconds for which what was found waits for somebody to ask for it."""
_MOST_KEPT = 10
"""Of those the oldest go: what was found may be large."""


class Searches:
    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], asyncio.Task[Any]] = {}

    async def find(self, who: str | None, what: str, look: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """What it found; None if it is not through, or not its turn yet: the same question, asked again, goes on with the same search."""
        key = (who or "", what)
        task = self._tasks.get(key)
        if task is None:
            if sum(not each.done() for each in self._tasks.values()) >= _MOST:
                return None
            task = self._tasks[key] = asyncio.ensure_future(look())
            task.add_done_callback(lambda done: self._keep(key, done))
        await asyncio.wait((task,), timeout=PATIENCE)
        if not task.done():
            return None
        self._forget(key, task)
        if task.cancelled():
            raise ServerUnavailable("the server is stopping")
        found: T = task.result()
        return found

    def end(self) -> None:
        """The server stops."""
        for task in self._tasks.values():
            task.cancel()

    def _keep(self, key: tuple[str, str], task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # nobody may ever ask for it, which asyncio would complain of
            asyncio.get_running_loop().call_later(_KEPT, self._forget, key, task)
            found = [(other, each) for other, each in self._tasks.items() if each.done()]
            for other, each in found[:-_MOST_KEPT]:
                self._forget(other, each)

    def _forget(self, key: tuple[str, str], task: asyncio.Task[Any]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
