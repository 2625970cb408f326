"""An executor: runs one transaction after another, each with all the calls that arrived together."""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from rowq.clock import running
from rowq.errors import RowqError, StoreError
from rowq.model.member import Share
from rowq.store import claim, lease, send, settle
from rowq.store.call import Call, Execute, Receive, Send, Settle
from rowq.store.dialect import Session
from rowq.store.meter import Meter, Tally
from rowq.store.policy import Policies
from rowq.store.retry import ConnectionLost, TryAgain, WouldWait, given_up
from rowq.store.store import Store
from rowq.store.transaction import Transaction

_log = logging.getLogger("rowq.store")

_MOST_TRIES = 10


class _MustSync(Exception):
    """A transaction turned out to contain something that must be on disk before it is answered."""


class Executor:
    """Each executor caches queue settings separately, so a rollback cannot leave a wrong value in another's cache."""

    def __init__(self, store: Store, *, patient: bool = False) -> None:
        self._store = store
        self._patient = patient
        self._tries_one_statement = store.dialect.has_autocommit and not patient
        self._lone = store.dialect.lone()
        self._policies = Policies(store.defaults, store.dialect.settings_max_age_ms, store.cache)

    def perform(self, calls: Sequence[Call[Any]]) -> None:
        """Gives every call its result or its error. A call that makes the shared transaction fail is then performed alone."""
        tries = 0
        while True:
            try:
                if len(calls) == 1 and self._perform_lone(calls[0]):
                    return
                batch = Batch(calls)
                if not (self._tries_one_statement and self._perform_at_once(batch)):
                    self._perform_together(batch, durable=batch.is_worth_a_sync)
                return
            except BaseException as error:
                self._forget()
                if not isinstance(error, Exception):
                    raise
                for call in calls:
                    call.anew()  # results from the failed transaction are void
                tries += 1
                if isinstance(error, TryAgain) and not isinstance(error, WouldWait) and tries < _MOST_TRIES:
                    self._store.dialect.pause(random.random() * 0.002 * 2**tries)
                    continue
                self._fail(calls, error)
                return

    def _fail(self, calls: Sequence[Call[Any]], error: Exception) -> None:
        if len(calls) > 1 and _may_be_the_fault_of_one(error):
            for call in calls:
                self.perform([call])
        else:
            is_for_a_patient_executor = isinstance(error, WouldWait) and not self._patient
            told = given_up(error) if isinstance(error, TryAgain) and not is_for_a_patient_executor else error
            for call in calls:
                call.fail(told)

    def _forget(self) -> None:
        """Drops caches: they may hold values that were rolled back."""
        self._policies.forget()
        self._store.heads.forget()
        if self._store.meter is not None:
            self._store.meter.failed()

    def _perform_lone(self, call: Call[Any]) -> bool:
        """Tries the shorter way of a dialect that has one; False when the call needs the general way."""
        store = self._store
        if self._lone is None or store.meter is not None or not self._policies.is_fresh(store.distrusted):
            return False
        return self._lone(call, store, self._policies)

    def _perform_at_once(self, batch: Batch) -> bool:
        """Tries a single autocommit statement; False when something is left to do."""
        if not self._policies.is_fresh(self._store.distrusted):
            return False
        if batch.has_only(batch.receives):
            return self._receive_at_once(batch)
        return batch.has_only(batch.settles) and self._ack_at_once(batch)

    def _receive_at_once(self, batch: Batch) -> bool:
        """All or nothing: if any message needs a closer look first, none is leased."""
        store, calls = self._store, batch.receives
        policy = claim.may_receive(self._policies, calls)
        if policy is None or store.times.look(calls[0].topic, store.clock.now()) is not None:
            return False
        autocommit = store.dialect.autocommitting()
        if autocommit is None:
            return False
        began = running()
        with autocommit as session:
            tx = self._begin(session)
            if not claim.claim_all_or_none(tx, calls[0].queue, calls, policy):
                return False
        self._finish(tx, batch, began, durable=True)
        return True

    def _ack_at_once(self, batch: Batch) -> bool:
        calls = batch.settles
        autocommit = self._store.dialect.autocommitting() if claim.may_ack(self._policies, calls) else None
        if autocommit is None:
            return False
        began = running()
        asked_at: tuple[int, ...] = ()
        try:
            with autocommit as session:
                tx = self._begin(session)
                asked_at = (tx.now,)
                done = settle.ack_at_once(tx, calls)
        except ConnectionLost:
            for call in calls:
                call.doubts += asked_at
            raise
        are_done = claim.share_out(calls, done)
        self._finish(tx, batch, began, durable=True)
        return are_done

    def _perform_together(self, batch: Batch, *, durable: bool) -> None:
        store = self._store
        began = running()
        try:
            with store.dialect.writing(durable=durable, patient=self._patient) as session:
                tx = self._begin(session)
                for call in batch.receives:
                    if not durable and _is_at_most_once(tx, call):
                        raise _MustSync
                self._carry_out(tx, batch)
        except _MustSync:
            self._perform_together(batch, durable=True)
            return
        self._finish(tx, batch, began, durable=durable)

    def _finish(self, tx: Transaction, batch: Batch, began: float, *, durable: bool) -> None:
        """Runs after the commit."""
        for call in batch.receives:
            call.begun(began, tx.now)
        took = running() - began
        if self._store.listeners or tx.has_news:
            self._store.tell(tx)
        if self._store.meter is not None:
            _measure(self._store.meter, tx, batch, durable, took)

    def perform_within(self, connection: Any, call: Call[Any]) -> None:
        """Performs a call inside the caller's own transaction. Wakes no consumer, since only the caller knows when it commits."""
        if isinstance(call, Send) and not self._store.dialect.has_one_writer:
            self._make_queue(call.queue)
        with self._store.dialect.joining(connection) as session:
            self._carry_out(self._begin(session), Batch([call]))
            if call.error is not None:
                raise call.error

    def _make_queue(self, queue: str) -> None:
        """Creates the queue's row first: written by the caller's transaction, it would block all other senders until that ends."""
        if queue not in self._store.made_queues:
            call = Execute(lambda tx: tx.policies.create(tx.session, queue, tx.now), durable=False)
            self.perform([call])
            if call.error is not None:
                raise call.error
            self._store.made_queues.add(queue)

    def _begin(self, session: Session) -> Transaction:
        store = self._store
        now = store.clock.now()
        self._policies.refresh(session, now, store.distrusted)
        tx = Transaction(session, self._policies, now, random.random, store.actor, store.news, store.heads, store.clock.now)
        if store.meter is not None:
            tx.tally = Tally()
        return tx

    def _carry_out(self, tx: Transaction, batch: Batch) -> None:
        """Sends first and receives last, so that messages sent or released here can be received here."""
        if batch.sends:
            send.send(tx, batch.sends)
        if batch.settles:
            settle.settle(tx, batch.settles)
        for act in batch.acts:
            _act(tx, act)
        if batch.receives:
            self._lease(tx, batch.receives)

    def _lease(self, tx: Transaction, receives: list[Receive]) -> None:
        alike: defaultdict[tuple[str, str | None, Share | None], list[Receive]] = defaultdict(list)
        for call in receives:
            alike[call.topic, call.delivery, call.share].append(call)
        for (topic, _, _), calls in alike.items():
            lease.lease(tx, calls[0].queue, calls, self._store.times.look(topic, tx.now))


class Batch:
    """Calls sorted by kind, and whether their transaction must be on disk before it is answered.

    A lost lease or ack only causes a redelivery; a lost send would lose a message.
    """

    __slots__ = ("acts", "is_worth_a_sync", "receives", "sends", "settles")

    def __init__(self, calls: Sequence[Call[Any]]) -> None:
        self.sends: list[Send] = []
        self.settles: list[Settle] = []
        self.acts: list[Execute[Any]] = []
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
            elif isinstance(call, Execute):
                self.acts.append(call)
                self.is_worth_a_sync |= call.durable

    def has_only(self, calls: list[Any]) -> bool:
        return bool(calls) and len(calls) == self.size

    @property
    def size(self) -> int:
        return len(self.sends) + len(self.settles) + len(self.acts) + len(self.receives)

    @property
    def rows(self) -> int:
        """Messages that were sent, settled or delivered."""
        calls: list[Call[Any]] = [*self.sends, *self.settles, *self.receives]
        return sum([len(call.result) for call in calls if call.result])


def _measure(meter: Meter, tx: Transaction, batch: Batch, durable: bool, seconds: float) -> None:
    try:
        if tx.tally is not None:
            meter.take(tx.tally, tx.now)
        meter.committed(calls=batch.size, rows=batch.rows, seconds=seconds, durable=durable)
    except Exception:
        _log.exception("a transaction was not counted")


def _is_at_most_once(tx: Transaction, call: Receive) -> bool:
    """Losing the lease of such a message would deliver it twice."""
    return (call.delivery or tx.policy(call.queue).delivery) == "at_most_once"


def _act(tx: Transaction, call: Execute[Any]) -> None:
    tx.act_for(call.actor)
    try:
        call.result = call.act(tx)
    except RowqError as error:  # an act raises before it writes, so the rest of the transaction is intact
        if isinstance(error, StoreError):
            raise
        call.error = error


def _may_be_the_fault_of_one(error: Exception) -> bool:
    """Not for a database that is busy, full or unavailable: trying each call again would only add load."""
    return not isinstance(error, StoreError) or type(error) is StoreError or isinstance(error, WouldWait)
