"""Transactions that failed through nobody's fault: they were rolled back as a whole, and are worth another try."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from rowq.clock import running
from rowq.errors import RowqError, StoreBusy, StoreUnavailable

T = TypeVar("T")
PAUSE = 0.1


class TryAgain(StoreBusy):
    """A deadlock, or two who wrote the same key at the same moment."""


class ConnectionLost(TryAgain):
    """The connection broke before the commit was sent: nothing was written."""


class WouldWait(TryAgain):
    """Somebody else's transaction holds what this one needs, and takes its time."""


def given_up(error: TryAgain) -> RowqError:
    """For the caller, when no more tries are made."""
    return StoreUnavailable(str(error)) if isinstance(error, ConnectionLost) else StoreBusy(str(error))


def insist(action: Callable[[], T], seconds: float) -> T:
    """Does it again while its connection breaks, until the time is over."""
    until = running() + seconds
    while True:
        try:
            return action()
        except ConnectionLost as error:
            if running() + PAUSE > until:
                raise given_up(error) from error
            time.sleep(PAUSE)
