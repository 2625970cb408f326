"""The store: performs calls that arrived together in one transaction, each verb in its own file beside this one."""

from __future__ import annotations

import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowq.clock import Clock
from rowq.errors import RowqError, StoreError
from rowq.meter import Meter, Tally
from rowq.model.queue import Settings
from rowq.store import leasing, sending, settling
from rowq.store.calls import Act, Call, Receive, Send, Settle
from rowq.store.dialect import Dialect, Session
from rowq.store.policies import Policies
from rowq.store.times import Times
from rowq.store.work import Work

_log = logging.getLogger("rowq.store")

Wake = Callable[[Mapping[str, int]], None]


class _MustSync(Exception):
    """A transaction turned out to hold something that must be on disk before it is answered."""


class Store:
    def __init__(self, dialect: Dialect, clock: Clock, defaults: Settings, actor: str | None) -> None:
        self.dialect = dialect
        self.times = Times()
        self.on_ready: Wake = lambda woken: None
        self.meter: Meter | None = None
        self._clock = clock
        self._defaults = defaults
        self._actor = actor
        self._policies = Policies(defaults, dialect.settings_max_age_ms)

    def perform(self, calls: Sequence[Call[Any]]) -> None:
        """Gives every call its result or its error. One that spoils the common transaction fails alone."""
        try:
            batch = _Batch(calls)
            self._perform_together(batch, durable=batch.is_worth_a_sync)
        except BaseException as error:
            self._policies.forget()  # what was remembered may have been rolled back
            if self.meter is not None:
                self.meter.failed()
            if not isinstance(error, Exception):
                raise
            if len(calls) > 1 and _may_be_the_fault_of_one(error):
                for call in calls:
                    call.result = call.error = None  # what it was told in company does not hold alone
                    self.perform([call])
            else:
                for call in calls:
                    call.result, call.error = None, error

    def perform_within(self, connection: Any, call: Call[Any]) -> None:
        """Performs a call inside the caller's own transaction; nobody is woken, since only the caller knows when it commits."""
        with self.dialect.joining(connection) as session:
            policies = Policies(self._defaults, self.dialect.settings_max_age_ms)
            self._carry_out(self._work(session, policies), _Batch([call]))
            if call.error is not None:
                raise call.error

    def distrust_settings(self) -> None:
        """They are read again by the next transaction."""
        self._policies.distrust()

    def _perform_together(self, batch: _Batch, *, durable: bool) -> None:
        meter = self.meter
        started = 0.0 if meter is None else time.perf_counter()
        try:
            with self.dialect.writing(durable=durable) as session:
                work = self._work(session, self._policies)
                if meter is not None:
                    work.tally = Tally()
                for call in batch.receives:
                    if not durable and _is_at_most_once(work, call):
                        raise _MustSync
                self._carry_out(work, batch)
        except _MustSync:
            self._perform_together(batch, durable=True)
            return
        ended = 0.0 if meter is None else time.perf_counter()
        self._tell(work)
        if meter is not None:
            _measure(meter, work, batch, durable, ended - started)

    def _tell(self, work: Work) -> None:
        """It is committed: whatever goes wrong from here on must not do it again."""
        try:
            self.times.learn(work)
            if work.woken:
                self.on_ready(work.woken)
        except Exception:
            _log.exception("nobody was woken; waiters look once a second")

    def _work(self, session: Session, policies: Policies) -> Work:
        now = self._clock.now()
        policies.refresh(session, now)
        return Work(session, policies, now, random.random, self._actor, self.dialect.news)

    def _carry_out(self, work: Work, batch: _Batch) -> None:
        """Sends first and receives last, so that what is sent or released here can be received here."""
        if batch.sends:
            sending.send(work, batch.sends)
        if batch.settles:
            settling.settle(work, batch.settles)
        for act in batch.acts:
            _act(work, act)
        if batch.receives:
            self._lease(work, batch.receives)

    def _lease(self, work: Work, receives: list[Receive]) -> None:
        alike: defaultdict[tuple[str, str | None], list[Receive]] = defaultdict(list)
        for call in receives:
            alike[call.topic, call.delivery].append(call)
        for (topic, _), calls in alike.items():
            leasing.lease(work, calls[0].queue, calls, look_at_times=self.times.should_look(topic, work.now))


class _Batch:
    """Calls sorted by kind, and whether their transaction must be on disk before it is answered.

    A lost lease or ack only means a redelivery; a lost send would mean a lost message.
    """

    __slots__ = ("acts", "is_worth_a_sync", "receives", "sends", "settles")

    def __init__(self, calls: Sequence[Call[Any]]) -> None:
        self.sends: list[Send] = []
        self.settles: list[Settle] = []
        self.acts: list[Act[Any]] = []
        self.receives: list[Receive] = []
        self.is_worth_a_sync = False
        for call in calls:
            if isinstance(call, Send):
                self.sends.append(call)
                self.is_worth_a_sync = True
            elif isinstance(call, Receive):
                self.receives.append(call)
            elif isinstance(call, Settle):
                self.settles.append(call)
                self.is_worth_a_sync |= call.is_worth_a_sync
            elif isinstance(call, Act):
                self.acts.append(call)
                self.is_worth_a_sync |= call.durable

    @property
    def size(self) -> int:
        return len(self.sends) + len(self.settles) + len(self.acts) + len(self.receives)

    @property
    def rows(self) -> int:
        """Messages that were sent, settled or delivered."""
        calls: list[Call[Any]] = [*self.sends, *self.settles, *self.receives]
        return sum([len(call.result) for call in calls if call.result])


def _measure(meter: Meter, work: Work, batch: _Batch, durable: bool, seconds: float) -> None:
    try:
        if work.tally is not None:
            meter.take(work.tally, work.now)
        meter.committed(calls=batch.size, rows=batch.rows, seconds=seconds, durable=durable)
    except Exception:
        _log.exception("a transaction was not counted")


def _is_at_most_once(work: Work, call: Receive) -> bool:
    """A lost lease of such a message would deliver it twice."""
    return (call.delivery or work.policy(call.queue).delivery) == "at_most_once"


def _act(work: Work, call: Act[Any]) -> None:
    work.act_for(call.actor)
    try:
        call.result = call.act(work)
    except RowqError as error:  # an act refuses before it writes, so nobody else's work is touched
        if isinstance(error, StoreError):
            raise
        call.error = error


def _may_be_the_fault_of_one(error: Exception) -> bool:
    """A database that is busy, full or away is nobody's fault, and would only be asked again and again."""
    return not isinstance(error, StoreError) or type(error) is StoreError
