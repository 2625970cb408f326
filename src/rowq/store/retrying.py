"""Transactions that failed through nobody's fault: they were rolled back as a whole, and are worth another try."""

from __future__ import annotations

from rowq.errors import RowqError, StoreBusy, StoreUnavailable


class TryAgain(StoreBusy):
    """A deadlock, or two who wrote the same key at the same moment."""


class ConnectionLost(TryAgain):
    """The connection broke before the commit was sent: nothing was written."""


class WouldWait(TryAgain):
    """Somebody else's transaction holds what this one needs, and takes its time."""


def given_up(error: TryAgain) -> RowqError:
    """For the caller, when no more tries are made."""
    return StoreUnavailable(str(error)) if isinstance(error, ConnectionLost) else StoreBusy(str(error))
