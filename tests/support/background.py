"""A call that runs beside the test and is waited for with a deadline, so that a hang is a failure and not a hang."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from tests.support.patience import DEADLINE

Answer = TypeVar("Answer")


class Background(Generic[Answer]):
    def __init__(self, call: Callable[[], Answer]) -> None:
        self._call = call
        self._answer: list[Answer] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def result(self, within: float = DEADLINE) -> Answer:
        self._thread.join(within)
        if self.is_running:
            raise AssertionError(f"no answer within {within} s; it is here:\n{self._whereabouts()}")
        if self._error is not None:
            raise self._error
        return self._answer[0]

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _whereabouts(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame))

    def _run(self) -> None:
        try:
            self._answer.append(self._call())
        except BaseException as error:  # whatever it is, the test that waits for the answer must see it
            self._error = error


def still_running_after_the_first(calls: Sequence[Background[Answer]], within: float = DEADLINE) -> list[Background[Answer]]:
    """Wait until one of the calls has answered; those that have not."""
    deadline = time.monotonic() + within
    while all(call.is_running for call in calls):
        assert time.monotonic() < deadline, f"no answer within {within} s"
        calls[0].join(0.01)
    return [call for call in calls if call.is_running]
