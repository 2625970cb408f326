"""What to do when no response comes, or one that says "not now": decided here, without sockets, for threads and event loops.

A request is repeated while that is harmless, until the timeout ends. If it may have been carried out but the answer is lost, the error is
`OutcomeUnknown`; if it cannot have been, the error is `ServerUnavailable`.
"""

from __future__ import annotations

import random
import time

from rowq.client.exchange import PATIENCE, Exchange, Kind, in_doubt
from rowq.client.http import Answer
from rowq.client.problem import error_of, is_not_now, is_ours
from rowq.engine.waiting import Interrupt
from rowq.errors import BrokerClosed, OutcomeUnknown, RowqError, ServerUnavailable

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
GRACE = 0.1
"""The share of the timeout by which the client waits longer than the server, so that the server can report its own timeout."""

_AWAY = (502, 503, 504)
_LATE = 408
"""What some proxies answer when the server behind them is slow."""


class Lost(Exception):
    """No response came. `may_have_arrived`: the server may have received the request. `is_stale`: the connection had been idle too long."""

    advice = "is it running, and is this its address?"
    is_final = False

    def __init__(self, sentence: str, *, may_have_arrived: bool, is_stale: bool = False) -> None:
        super().__init__(sentence)
        self.may_have_arrived = may_have_arrived
        self.is_stale = is_stale


class Estranged(Lost):
    """Client and server cannot talk until the configuration changes: another try would be useless."""

    is_final = True

    def __init__(self, sentence: str, advice: str) -> None:
        super().__init__(sentence, may_have_arrived=False)
        self.advice = advice


class Tries:
    """The tries of one request."""

    def __init__(self, exchange: Exchange[object], timeout: float, server: str) -> None:
        self._exchange = exchange
        self._server = server
        self._grace = timeout * GRACE
        self._until = time.monotonic() + timeout + exchange.wait
        self._count = 0
        self._may_have_arrived = False

    @property
    def seconds_to_connect(self) -> float:
        return max(0.001, self._until - time.monotonic())

    @property
    def seconds(self) -> float:
        """How long this try may take."""
        return PATIENCE if self._exchange.is_slow else self.seconds_to_connect + self._grace

    def judge(self, answer: Answer) -> float | None:
        """None if this is the final response; else the seconds until the next try."""
        if answer.status < 300:
            answer.is_repeat = self._may_have_arrived
            return None
        error = error_of(answer, self._server)
        if is_not_now(answer):
            return self._pause(in_doubt(error) if self._is_in_doubt else error, answer.retry_after)
        if not is_ours(answer) and self._may_be_passed_on(answer.status):
            return self.note_loss(Lost(str(error), may_have_arrived=True))
        answer.is_repeat = self._may_have_arrived
        return None

    def note_loss(self, lost: Lost | BrokerClosed, interrupt: Interrupt | None = None) -> float:
        """The seconds until the next try; raises if there is none, as for a caller that has interrupted its wait."""
        if isinstance(lost, BrokerClosed):
            raise in_doubt(lost) if self._is_in_doubt else lost
        if lost.may_have_arrived:
            self._may_have_arrived = True
            if self._exchange.kind is Kind.ONCE:
                raise self._unknown(lost)
        if lost.is_stale and self._count == 0:
            self._count = 1
            return 0.0
        error = self._unknown(lost) if self._is_in_doubt else unavailable(self._server, lost)
        if lost.is_final or (interrupt is not None and interrupt.is_set):
            raise error
        return self._pause(error, None)

    def _may_be_passed_on(self, status: int) -> bool:
        """Whether a status from a proxy counts as a lost response. For a request that only reads, few do: the others are reported at
        once."""
        return status in _AWAY or (self._exchange.kind is not Kind.LOOK and (status >= 500 or status == _LATE))

    @property
    def _is_in_doubt(self) -> bool:
        return self._may_have_arrived and self._exchange.kind is not Kind.LOOK

    def _pause(self, error: RowqError, asked: float | None) -> float:
        seconds = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**self._count) * (0.5 + random.random() / 2)
        if asked:
            seconds += asked
        self._count = min(self._count + 1, 16)
        if time.monotonic() + seconds >= self._until:
            raise error
        return seconds

    def _unknown(self, lost: Lost) -> OutcomeUnknown:
        return OutcomeUnknown(f"{self._server} was asked, and its answer was lost ({lost}): it may or may not have been done")


def unavailable(server: str, lost: Lost) -> ServerUnavailable:
    return ServerUnavailable(f"{server} cannot be reached: {lost}; {lost.advice}")
