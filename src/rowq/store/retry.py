"""Transient failures: the transaction was rolled back as a whole and can be tried again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from rowq.clock import running
from rowq.errors import RowqError, StoreBusy, StoreUnavailable

T = TypeVar("T")
PAUSE = 0.1


class TryAgain(StoreBusy):
    """A deadlock, or two transactions that wrote the same key at the same moment."""


class ConnectionLost(TryAgain):
    """The connection broke before the commit was sent: nothing was written."""


class WouldWait(TryAgain):
    """Another transaction has held a lock that this one needs for too long."""


def given_up(error: TryAgain) -> RowqError:
    """The error for the caller after the last attempt."""
    return StoreUnavailable(str(error)) if isinstance(error, ConnectionLost) else StoreBusy(str(error))


def insist(action: Callable[[], T], seconds: float) -> T:
    """Repeats an action while its connection breaks, until the time is over."""
    until = running() + seconds
    while True:
        try:
            return action()
        except ConnectionLost as error:
            if running() + PAUSE > until:
                raise given_up(error) from error
            time.sleep(PAUSE)
