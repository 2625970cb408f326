"""The work of a process, done beside the test: on a broker of its own, in threads of this process. Nothing is shared but the database.

It costs no start of a process; what only processes can show (kills, forks, locks of files) is not for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import rowq
from tests.rivals import consuming, contending, handling, meddling, mixing, sending
from tests.rivals.process import Start, heard_by
from tests.support.background import Background
from tests.support.patience import DEADLINE, eventually

_WORK: dict[str, Callable[..., None]] = {
    "consuming": consuming.consume,
    "contending": contending.contend,
    "handling": handling.handle,
    "meddling": meddling.meddle,
    "mixing": mixing.mix,
    "sending": sending.send,
}


class Neighbour:
    """As a Rival, as far as that goes."""

    def __init__(self, part: str, url: str, name: str, threads: int, *arguments: object) -> None:
        self._said: list[list[Any]] = []
        self._stop = threading.Event()
        self._broker = rowq.connect(url)
        work = [partial(_WORK[part], self._broker, f"{name}-{thread}", *arguments, self._stop) for thread in range(threads)]
        self._threads = [Background(partial(heard_by, self._said, each)) for each in work]

    def said(self, *words: str) -> list[list[Any]]:
        return [line[1:] for line in self._said.copy() if line[0] in words]

    def await_said(self, word: str, count: int = 1, within: float = DEADLINE) -> list[list[Any]]:
        def has_said() -> list[list[Any]]:
            for thread in self._threads:
                if not thread.is_running:
                    thread.result()  # an error of the work is an error of the test
            said = self.said(word)
            return said[:count] if len(said) >= count else []

        return eventually(has_said, within)

    def finish(self) -> None:
        """Lets it come to its end, which must be a good one."""
        self._stop.set()
        for thread in self._threads:
            thread.result(DEADLINE)
        self._broker.close()

    def clear_away(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(DEADLINE)
        self._broker.close()


@contextmanager
def moving_in() -> Iterator[Start]:
    """`start("handling", url, name, threads, …)`, as if it were a process."""
    started: list[Neighbour] = []

    def start(part: str, url: str, *arguments: Any) -> Neighbour:
        started.append(Neighbour(part, url, *arguments))
        return started[-1]

    try:
        yield start  # type: ignore[misc]  # a Neighbour says and ends as a Rival does
    finally:
        for neighbour in started:
            neighbour.clear_away()
