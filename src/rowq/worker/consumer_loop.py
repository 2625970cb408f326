"""The consumer loop, written once for threads and tasks: fetch, handle, settle; and a thread of its own for heartbeats and leases.

    def work(…):
        deliveries = yield verbs.receive(…)     # a verb, which a thread or an event loop drives
        error = yield delivery                  # a message for the function
        yield Rest(…)                           # nothing to do

A thread sends heartbeats and extends leases even if messages are handled in an event loop: a function that blocks the loop loses
neither.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable

from rowq.engine.arguments import note
from rowq.engine.engine import Engine
from rowq.engine.operation import Operation, take_each
from rowq.engine.waiting import Interrupt
from rowq.errors import RowqError
from rowq.model.lifecycle import Ack, Extend, Nack
from rowq.model.message import Delivery, Outcome
from rowq.model.queue import Policy
from rowq.worker.heartbeat import Heartbeat
from rowq.worker.in_flight import How, InFlight, Rest, Todo
from rowq.worker.patience import Patience, passes
from rowq.worker.plan import Plan

_log = logging.getLogger("rowq.workers")

LAST_TRIES = 3
"""Tries of a settle that fails while the consumer stops."""
BUSY_TICK = 0.1
NOT_REGISTERED = 0.1


class ConsumerLoop:
    """A running consumer, from start to end."""

    def __init__(self, engine: Engine, plan: Plan, how: Callable[[], How]) -> None:
        self._engine = engine
        self._verbs = engine.verbs
        self._plan = plan
        self._lease = plan.lease
        self.in_flight = InFlight(plan.batch_size, plan.concurrency, how)
        self.heartbeat = Heartbeat(engine, plan)
        self.failure: BaseException | None = None
        self._at_work = plan.concurrency
        self._leaving = threading.Lock()
        self._waiting = Interrupt()
        self._is_over = threading.Event()
        """All workers have ended: heartbeats may end."""
        self.has_ended = threading.Event()
        """It has unregistered, too."""

    def work(self) -> Operation[None]:
        """One of `concurrency` identical workers."""
        patience = Patience()
        while (todo := self.in_flight.next()) is not Todo.LEAVE:
            if isinstance(todo, Delivery):
                error = yield todo
                self.in_flight.finish(todo, None if error is None else self._describe(todo, error))
                continue
            try:
                if todo is Todo.FETCH:
                    yield from self._fetch()
                elif isinstance(todo, Rest):
                    yield from self._rest(todo)
                    continue
                else:
                    yield from self._settle()
                patience.reset()
            except RowqError as error:
                yield from self._bear(error, patience)

    def stop(self) -> None:
        """Messages in progress are finished; nothing more is fetched or waited for."""
        self.in_flight.stop()
        self._waiting.set()

    def leave(self) -> None:
        """Called by each worker at its end."""
        with self._leaving:
            self._at_work -= 1
        if self._at_work == 0:
            self._is_over.set()

    def fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
            _log.error("consumer of %s stops: %r", self._plan.queue, error)
        self.stop()

    def keep_up(self) -> None:
        """The background thread: keeps the registration and the leases, and settles while all workers are busy."""
        patience = Patience()
        while not self._is_over.is_set():
            try:
                self._keep()
                patience.reset()
                pause = self._until_next()
            except Exception as error:
                pause = patience.pause()
                if not isinstance(error, RowqError) or not passes(error):
                    self.fail(error)
                elif patience.failures == 1:
                    _log.warning("consumer of %s cannot send its heartbeat, and tries again: %s", self._plan.queue, error)
            self._is_over.wait(pause)
        try:
            self._drive(self.heartbeat.leave())
        except RowqError as error:
            _log.info("consumer of %s could not unregister: %s", self._plan.queue, error)
        finally:
            self.has_ended.set()

    def _drive(self, steps: Operation[None]) -> None:
        take_each(steps, self._engine.driver.drive)

    def _keep(self) -> None:
        if self._lease is None:
            self._drive(self._learn_lease())
        if time.monotonic() >= self.heartbeat.next_at:
            was_known = self.heartbeat.membership is not None
            self._drive(self.heartbeat.keep())
            if not was_known:
                self.in_flight.wake_all()
        self._drive(self._extend())
        if self.in_flight.is_overdue():
            self._drive(self._settle())

    def _learn_lease(self) -> Operation[None]:
        policy: Policy = yield self._verbs.look(self._engine.insights.policy, self._plan.queue)
        self._lease = policy.lease_ms / 1000

    def _until_next(self) -> float:
        soon = self._plan.beat if self._lease is None else min(self._plan.beat, self._lease / 4)
        return min(soon if self.in_flight.is_empty else min(soon, BUSY_TICK), max(0.001, self.heartbeat.next_at - time.monotonic()))

    def _fetch(self) -> Operation[None]:
        deliveries: list[Delivery] = []
        plan, member = self._plan, self.heartbeat.membership
        try:
            if member is not None and self._lease is not None:
                wait = 0.0 if self.in_flight.has_fresh else plan.wait
                share = self.heartbeat.share()
                look = (plan.batch_size, wait, self._lease, member.id, plan.delivery, share)
                deliveries = yield self._verbs.receive(plan.queue, *look, interrupt=self._waiting)
        finally:
            until = time.monotonic() + (self._lease or 0)
            is_alive = member is not None and self.heartbeat.knows(member.id)
            self.in_flight.fetched(deliveries if is_alive else [], until)
        if not is_alive:
            self.in_flight.release(deliveries, until)  # received by a consumer considered dead meanwhile
            yield from self._rest(self.in_flight.rest(NOT_REGISTERED))

    def _settle(self) -> Operation[None]:
        finished = self.in_flight.take_finished()
        try:
            if finished.done:
                outcomes = yield self._verbs.settle_many(finished.done, Ack())
                self._note_settled(finished.done, outcomes)
                finished.done = []
            by_error: dict[str, list[Delivery]] = defaultdict(list)
            for delivery, error in finished.failed:
                by_error[error].append(delivery)
            for error, deliveries in by_error.items():
                outcomes = yield self._verbs.settle_many(deliveries, Nack(error, self._plan.retry_ms, limit=self._plan.limit))
                self._note_settled(deliveries, outcomes)
                finished.failed = [one for one in finished.failed if one[1] != error]
            if finished.released:
                self._note_settled(finished.released, (yield self._verbs.settle_many(finished.released, Nack(counts=False, delay=0))))
        except BaseException:
            self.in_flight.put_back(finished)
            raise

    def _note_settled(self, deliveries: list[Delivery], outcomes: list[Outcome]) -> None:
        not_ours = [delivery for delivery, outcome in zip(deliveries, outcomes, strict=True) if outcome is not Outcome.DONE]
        lost = sum(map(self.in_flight.is_lost, not_ours))
        if lost:
            _log.warning("%s messages of %s were settled too late: their leases were lost", lost, self._plan.queue)
        elif not_ours:
            _log.debug("%s messages of %s were settled before, by their function or by an operator", len(not_ours), self._plan.queue)
        self.in_flight.forget(deliveries)

    def _extend(self) -> Operation[None]:
        if self._lease is None:
            return
        began = time.monotonic()
        receipts = self.in_flight.ending_before(began + self._lease * 2 / 3)
        if receipts:
            outcomes = yield self._verbs.settle_many(receipts, Extend(max(1, round(self._lease * 1000))))
            self.in_flight.extended(receipts, outcomes, began + self._lease)

    def _bear(self, error: RowqError, patience: Patience) -> Operation[None]:
        """The database is unavailable for a while; or the error is permanent."""
        pause = patience.pause()
        if not passes(error) or (self.in_flight.is_stopping and patience.failures >= LAST_TRIES):
            self.fail(error)
            self.in_flight.give_up()
            return
        if patience.failures == 1:
            _log.warning("consumer of %s waits, and tries again: %s", self._plan.queue, error)
        yield from self._rest(self.in_flight.rest(pause))

    def _rest(self, rest: Rest) -> Operation[None]:
        try:
            yield rest
        finally:
            self.in_flight.rested(rest)

    def _describe(self, delivery: Delivery, error: BaseException) -> str:
        name = type(error).__name__
        try:
            reason = note(f"{name}: {error}", "reason") or name
        except Exception:  # an error that cannot be printed
            reason = name
        _log.warning("message %s of %s failed: %s", delivery.id, delivery.queue, reason, exc_info=error)
        return reason
