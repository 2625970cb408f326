"""Upkeep: what time alone makes necessary, done in the background in small pieces, or at once by `sweep`.

What may be due is looked up on a reading connection first, so a queue with nothing to do costs no write.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from rowq.clock import Clock
from rowq.errors import BrokerClosed, RowqError
from rowq.model.message import State
from rowq.model.queue import Policy, Settings, resolve
from rowq.steps import Driver, Read, Steps
from rowq.store import duty, operating, registry, requests, sessions, staging, sweeping
from rowq.store.calls import Act
from rowq.store.dialect import Dialect, Session
from rowq.store.policies import read_settings
from rowq.store.work import Work

DUTY = "upkeep"
DUTY_MS = 10_000
"""How long a process that says no more is taken for the one that keeps everything up."""
PIECE = 500
SWEEP_EVERY = 1.0
SHARE = 10
"""It may take one part in so many of the time."""
LONGEST_PAUSE = 5.0
"""Less than a duty lasts."""
RETIRE_EVERY = 60
TIDY_THOROUGHLY_EVERY = 3_600

_log = logging.getLogger("rowq.upkeep")


class Swept(msgspec.Struct, frozen=True):
    """How many messages a sweep touched, by what had become of them."""

    due: int
    lease_expired: int
    expired: int
    retired: int


class Upkeep:
    def __init__(self, dialect: Dialect, clock: Clock, defaults: Settings) -> None:
        self._dialect = dialect
        self._clock = clock
        self._defaults = defaults
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._me = secrets.token_hex(8)

    def sweep(self) -> Steps[Swept]:
        """Everything, at once."""
        due, lease_expired, expired = yield from self.take_up()
        retired = yield from self.retire()
        return Swept(due, lease_expired, expired, retired)

    def take_up(self) -> Steps[tuple[int, int, int]]:
        """Due messages, expired leases, expired messages."""
        due = lease_expired = 0
        late = self._clock.now() - sweeping.LATE_MS
        for queue in (yield Read(lambda: self._queues_with_work(late))):
            due += yield from _take_due(queue)
            lease_expired += yield from _take_back(queue, late)
        expired = yield from self.expire()
        return due, lease_expired, expired

    def take_due(self) -> Steps[int]:
        return self._in_all_queues(lambda queue, _: _take_due(queue))

    def take_back(self) -> Steps[int]:
        """Expired leases: back to their queue, or used up."""
        return self._in_all_queues(_take_back)

    def expire(self) -> Steps[int]:
        return (yield from _end_in_pieces()) if (yield Read(self._is_anything_ended)) else 0

    def retire_dead(self) -> Steps[int]:
        """Dead letters older than the dlq_ttl of their queue."""
        count = 0
        for retire, queue in (yield Read(self._find_retirable)):
            if retire is sweeping.retire_dead:
                count += yield from _in_pieces(lambda work, queue=queue: sweeping.retire_dead(work, queue, PIECE))  # type: ignore[misc]
        return count

    def retire(self) -> Steps[int]:
        """What is kept for a while only: dead letters with a TTL, history, audit, ids of messages that are gone."""
        retired = 0
        for retire, queue in (yield Read(self._find_retirable)):
            retired += yield from _in_pieces(lambda work, retire=retire, queue=queue: retire(work, queue, PIECE))  # type: ignore[misc]
        shortest = yield Read(self._shortest_audit_retention)
        after: int | None = 0 if shortest else None
        while after is not None:
            gone, after = yield Act(
                lambda work, after=after: sweeping.retire_audit(work, after, shortest, PIECE),  # type: ignore[misc]
                durable=False,
            )
            retired += gone
        if (yield Read(self._is_a_request_old)):
            yield from _in_pieces(lambda work: requests.retire(work, PIECE))
        if (yield Read(self._is_a_stage_old)):
            yield from _in_pieces(lambda work: staging.retire(work, PIECE))
        if (yield Read(self._is_a_consumer_silent)):
            yield from _in_pieces(lambda work: registry.retire(work, PIECE))
        if (yield Read(self._is_a_session_over)):
            yield from _in_pieces(lambda work: sessions.retire(work, PIECE))
        return retired

    def reap(self) -> Steps[int]:
        """Messages that are kept as expired, of all queues, whatever their retention says."""
        reaped = 0
        for queue in (yield Read(self._queues)):
            seqs = yield Read(lambda queue=queue: self._list_expired(queue))  # type: ignore[misc]
            gone = 0
            for start in range(0, len(seqs), PIECE):
                piece = list(seqs[start : start + PIECE])
                gone += yield Act(lambda work, queue=queue, piece=piece: operating.purge(work, queue, State.FINISHED, piece))  # type: ignore[misc]
            if gone:
                yield Act(lambda work, queue=queue, gone=gone: operating.note_purge(work, gone, queue=queue, states=[State.FINISHED]))  # type: ignore[misc]
            reaped += gone
        return reaped

    def start(self, driver: Driver, if_idle: Callable[[Callable[[], None]], Any]) -> None:
        self._thread = threading.Thread(target=self._run, args=(driver, if_idle), name="rowq-upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self, driver: Driver, if_idle: Callable[[Callable[[], None]], Any]) -> None:
        turn, pause = 0, SWEEP_EVERY
        while not self._stop.wait(pause):
            turn += 1
            started = time.perf_counter()
            try:
                if self._dialect.has_one_writer or driver.drive(self._take_duty()):
                    try:
                        driver.drive(self.take_up())
                    finally:  # one message that somebody holds locked must not stop everything else
                        self._do_the_rest(driver, if_idle, turn)
            except BrokerClosed:
                return
            except RowqError as error:
                _log.warning("upkeep failed, and goes on in a moment: %s", error)
            except Exception:
                _log.exception("upkeep failed; it goes on in a second")
            pause = min(LONGEST_PAUSE, max(SWEEP_EVERY, (time.perf_counter() - started) * SHARE))
        if not self._dialect.has_one_writer:
            with suppress(RowqError):
                driver.drive(self._leave_duty())

    def _do_the_rest(self, driver: Driver, if_idle: Callable[[Callable[[], None]], Any], turn: int) -> None:
        if turn % RETIRE_EVERY == 0:
            driver.drive(self.retire())
        if turn % self._dialect.tidy_every == 0:
            if_idle(lambda: self._dialect.tidy(thoroughly=turn % TIDY_THOROUGHLY_EVERY == 0))

    def _take_duty(self) -> Steps[bool]:
        """Of all processes on a database one sweeps; True when it is this one."""
        has_duty: bool = yield Act(lambda work: duty.take(work, DUTY, self._me, work.now + DUTY_MS), durable=False)
        return has_duty

    def _leave_duty(self) -> Steps[None]:
        yield Act(lambda work: duty.leave(work, DUTY, self._me), durable=False)

    def _queues(self) -> list[str]:
        with self._dialect.reading() as session:
            return [row[0] for row in session.rows("read_all_settings")]

    def _list_expired(self, queue: str) -> array[int]:
        with self._dialect.reading() as session:
            return array("q", (row[0] for row in session.stream("list_expired", queue=queue)))

    def _in_all_queues(self, take: Callable[[str, int], Steps[int]]) -> Steps[int]:
        late, count = self._clock.now() - sweeping.LATE_MS, 0
        for queue in (yield Read(lambda: self._queues_with_work(late))):
            count += yield from take(queue, late)
        return count

    def _queues_with_work(self, late: int) -> list[str]:
        with self._dialect.reading() as session:
            return [row[0] for row in session.rows("find_queues_with_work", now=self._clock.now(), late=late)]

    def _is_anything_ended(self) -> bool:
        with self._dialect.reading() as session:
            return bool(session.rows("is_anything_ended", now=self._clock.now()))

    def _find_retirable(self) -> list[tuple[Callable[[Work, str, int], int], str]]:
        now = self._clock.now()
        with self._dialect.reading() as session:
            return [
                (retire, queue)
                for queue, policy in self._policies(session)
                for query, age, retire in (
                    ("list_old_dead", policy.dlq_ttl_ms, sweeping.retire_dead),
                    ("list_old_history", policy.retention_ms, sweeping.retire_history),
                    ("list_gone_own_ids", policy.audit_retention_ms, sweeping.retire_own_ids),
                )
                if age and session.rows(query, queue=queue, cutoff=now - age, limit=1)
            ]

    def _is_a_request_old(self) -> bool:
        with self._dialect.reading() as session:
            return bool(session.rows("list_old_requests", cutoff=self._clock.now() - requests.KEPT_MS, limit=1))

    def _is_a_stage_old(self) -> bool:
        with self._dialect.reading() as session:
            return bool(session.rows("list_old_staged", cutoff=self._clock.now() - staging.KEPT_MS, limit=1))

    def _is_a_consumer_silent(self) -> bool:
        with self._dialect.reading() as session:
            return bool(session.rows("list_silent_consumers", cutoff=self._clock.now() - registry.KEPT_MS, limit=1))

    def _is_a_session_over(self) -> bool:
        with self._dialect.reading() as session:
            return bool(session.rows("list_ended_sessions", now=self._clock.now(), limit=1))

    def _shortest_audit_retention(self) -> int:
        """0 when nothing can be old enough."""
        with self._dialect.reading() as session:
            ages = [policy.audit_retention_ms for _, policy in self._policies(session) if policy.audit_retention_ms]
            ages += [resolve(self._defaults).audit_retention_ms] if resolve(self._defaults).audit_retention_ms else []
            oldest = session.row("list_audit", after=0, limit=1)
        if not ages or oldest is None or oldest[1] > self._clock.now() - min(ages):
            return 0
        return min(ages)

    def _policies(self, session: Session) -> Iterator[tuple[str, Policy]]:
        for name, settings in session.rows("read_all_settings"):
            yield name, resolve(read_settings(settings), self._defaults)


def _in_pieces(act: Callable[[Work], int]) -> Steps[int]:
    count = 0
    while piece := (yield Act(act, durable=False)):
        count += piece
        if piece < PIECE:
            break
    return count


def _take_due(queue: str) -> Steps[int]:
    return _in_pieces(lambda work: sweeping.take_due(work, queue, PIECE))


def _take_back(queue: str, late: int) -> Steps[int]:
    return _in_pieces(lambda work: sweeping.take_lease_expired(work, queue, late, PIECE))


def _end_in_pieces() -> Steps[int]:
    ended, looked = 0, PIECE
    while looked == PIECE:
        looked, gone = yield Act(lambda work: sweeping.take_ended(work, PIECE), durable=False)
        ended += gone
    return ended
