"""Many threads that start at the same moment; an error of any of them is an error of the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from tests.support.patience import DEADLINE

Answer = TypeVar("Answer")


class Crowd(Generic[Answer]):
    def __init__(self, calls: Iterable[Callable[[], Answer]]) -> None:
        todo = list(calls)
        self._start = threading.Barrier(len(todo))
        self._answers: dict[int, Answer] = {}
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(place, call), daemon=True) for place, call in enumerate(todo)]
        for thread in self._threads:
            thread.start()

    def results(self, within: float = DEADLINE) -> list[Answer]:
        """What each call answered, in the order of the calls."""
        for thread in self._threads:
            thread.join(within)
        if self._errors:
            raise self._errors[0]
        stuck = sum(thread.is_alive() for thread in self._threads)
        assert not stuck, f"{stuck} of {len(self._threads)} threads did not end within {within} s"
        return [self._answers[place] for place in range(len(self._threads))]

    def _run(self, place: int, call: Callable[[], Answer]) -> None:
        try:
            self._start.wait()
            self._answers[place] = call()
        except BaseException as error:  # whatever it is, the test must see it
            self._errors.append(error)


def together(*calls: Callable[[], Answer], within: float = DEADLINE) -> list[Answer]:
    return Crowd(calls).results(within)
