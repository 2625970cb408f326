"""What each thread of a participant can do, whatever its way; and how a call is made so that nothing of it is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import rowq
from trust.torture.logbook import Page

PAUSE = 0.05
"""Seconds after an error, so that nobody spins while the database is away."""
T = TypeVar("T")


class Parcel(NamedTuple):
    """A delivery, as far as a participant works with it."""

    receipt: str
    message: int | str
    """Its seq, or an id where a way tells no more."""
    attempt: int | None
    until: int
    name: str
    group: str | None
    token: int | None


class Hands(Protocol):
    @property
    def queues(self) -> tuple[str, ...]:
        """Those that this way can work with."""

    @property
    def verdicts(self) -> tuple[str, ...]:
        """What a consumer can say on this way."""

    @property
    def tells_ids(self) -> bool:
        """Whether a send is answered with ids that the sender did not bring."""

    def send(self, queue: str, drafts: list[rowq.Draft]) -> list[str]: ...

    def receive(self, queue: str, most: int, wait: float, lease: float, tag: str) -> list[Parcel]: ...

    def settle(self, verb: str, receipts: list[str]) -> list[str]:
        """`verb` is ack, nack, release, reject or reschedule, alone (LeaseLost is raised) or with `_many`. An outcome for each."""

    def extend(self, receipt: str, lease: float) -> int: ...


class Undone(Exception):
    """The caller's own transaction was rolled back, as the caller wished: nothing of it may ever be seen."""

    code = "rolled_back"


class Refused(Exception):
    """A procedure in SQL has refused, with a sentence of rowq's."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class DriverFailed(Exception):
    """The caller's own connection failed: that is no error of rowq's, and what became of the call is unknown."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.code = f"driver:{getattr(error, 'sqlstate', None) or type(error).__name__}"


class Caller:
    """Writes down what is asked, asks, and writes down what was answered."""

    def __init__(self, page: Page, stop: threading.Event) -> None:
        self.page = page
        self.stop = stop

    def call(self, verb: str, what: list[object], ask: Callable[[], T], told: Callable[[T], list[object]]) -> T | None:
        """The answer; None after an error."""
        self.page.asked(verb, *what)
        try:
            answer = ask()
        except (rowq.RowqError, Undone, Refused, DriverFailed) as error:
            self.page.failed(error.code, "" if isinstance(error, rowq.LeaseLost | Undone) else str(error))
            if not isinstance(error, rowq.LeaseLost | Undone):
                self.stop.wait(PAUSE)
            return None
        except Exception as error:
            self.page.crashed(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
            self.stop.wait(PAUSE)
            return None
        self.page.answered(*told(answer))
        return answer
