"""Searches that may have to read a whole queue. A page waits briefly for its search, then polls, so no request is held up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from rowq.errors import ServerUnavailable

T = TypeVar("T")

PATIENCE = 0.6
"""Seconds that a page waits for its search."""
_MOST = 2
"""Searches at a time: each occupies one of the server's few threads until it ends."""
_KEPT = 30.0
"""Seconds for which a result waits for its page to fetch it."""
_MOST_KEPT = 10
"""Results kept; the oldest are dropped first, since a result may be large."""


class Searches:
    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], asyncio.Task[Any]] = {}

    async def find(self, who: str | None, what: str, look: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """The result; None if the search is not finished or not started yet. The same query, asked again, continues the same search."""
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
            task.exception()  # marks it as retrieved: if the page never fetches it, asyncio would log a warning
            asyncio.get_running_loop().call_later(_KEPT, self._forget, key, task)
            found = [(other, each) for other, each in self._tasks.items() if each.done()]
            for other, each in found[:-_MOST_KEPT]:
                self._forget(other, each)

    def _forget(self, key: tuple[str, str], task: asyncio.Task[Any]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
