"""Maintenance: what becomes due with time, done in the background in small batches, or at once by `maintain`.

Due work is looked up on a reading connection first, so a queue with nothing to do costs no write.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from rowq.clock import Clock, running
from rowq.engine.insights import Insights
from rowq.engine.operation import Driver, Operation, Read, Sleep
from rowq.engine.retention import EVERY as RETIRE_EVERY
from rowq.engine.retention import PIECE, Retention
from rowq.errors import BrokerClosed, NotFound, RowqError
from rowq.model.message import State
from rowq.model.queue import Settings
from rowq.model.text import check_text
from rowq.store import expiry, operate, registry
from rowq.store.call import Execute
from rowq.store.dialect import Dialect
from rowq.store.transaction import Transaction

DUTY = "upkeep"
"""Its name in `rowq_duties`, which processes of earlier releases read too."""
DUTY_MS = 10_000
"""How long the maintenance duty outlives its holder."""
TURN_EVERY = 1.0
SHARE = 10
"""Maintenance may take one part in this many of the time."""
LONGEST_PAUSE = 5.0
"""Shorter than the duty lasts."""
RETIRE_FOR = 5.0
"""Seconds per turn: the duty has to be renewed, and due messages may be waiting."""
TIDY_THOROUGHLY_EVERY = 3_600

_log = logging.getLogger("rowq.maintenance")


class MaintenanceResult(msgspec.Struct, frozen=True):
    """How many messages a run touched, by what became of them."""

    due: int
    lease_expired: int
    expired: int
    retired: int


class Maintenance:
    def __init__(self, dialect: Dialect, clock: Clock, defaults: Settings) -> None:
        self._dialect = dialect
        self._clock = clock
        self._retiring = Retention(dialect, clock, defaults)
        self._retire_at = 0.0
        self._is_retiring = self._is_removing = False
        """Whether removal continues in the next turn; and whether this turn removed so much that more is to be expected."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._me = secrets.token_hex(8)

    def run_all(self) -> Operation[MaintenanceResult]:
        """Everything, at once."""
        due, lease_expired, expired = yield from self.take_up()
        retired = yield from self.retire()
        return MaintenanceResult(due, lease_expired, expired, retired)

    def take_up(self) -> Operation[tuple[int, int, int]]:
        """Due messages, expired leases, expired messages."""
        due = lease_expired = 0
        for queue in (yield Read(self._queues_with_work)):
            due += yield from _take_due(queue)
            lease_expired += yield from _take_lease_expired(queue)
        expired = yield from self.take_ended()
        return due, lease_expired, expired

    def take_due(self) -> Operation[int]:
        return self._in_all_queues(_take_due)

    def take_lease_expired(self) -> Operation[int]:
        """Messages with expired leases return to their queue, or have used up their attempts."""
        return self._in_all_queues(_take_lease_expired)

    def take_ended(self) -> Operation[int]:
        return (yield from _take_ended()) if (yield Read(self._is_anything_ended)) else 0

    def retire_dead(self) -> Operation[int]:
        """Dead letters older than the dlq_ttl of their queue."""
        return self._retiring.dead()

    def retire(self) -> Operation[int]:
        """Removes what is kept for a limited time: dead letters with a TTL, history, audit, ids of messages that are gone."""
        return self._retiring.all()

    def reap(self) -> Operation[int]:
        """Removes messages kept as expired, in all queues, whatever their retention is."""
        reaped = 0
        for queue in (yield Read(self._queues)):
            seqs = yield Read(partial(self._list_expired, queue))
            gone = 0
            for start in range(0, len(seqs), PIECE):
                piece = list(seqs[start : start + PIECE])
                gone += yield Execute(partial(operate.purge, queue=queue, state=State.FINISHED, seqs=piece))
            if gone:
                yield Execute(partial(operate.note_purge, count=gone, queue=queue, states=[State.FINISHED]))
            reaped += gone
        return reaped

    def start(self, driver: Driver, if_idle: Callable[[Callable[[], None]], Any]) -> None:
        self._thread = threading.Thread(target=self._run, args=(driver, if_idle), name="rowq-maintenance", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self, driver: Driver, if_idle: Callable[[Callable[[], None]], Any]) -> None:
        turn, pause = 0, TURN_EVERY
        while not self._stop.wait(pause):
            turn += 1
            started = time.perf_counter()
            goes_on, self._is_retiring, self._is_removing = self._is_retiring, False, False
            try:
                if self._dialect.has_one_writer or driver.drive(self._take_duty()):
                    try:
                        driver.drive(self.take_up())
                    finally:  # one locked message must not stop everything else
                        self._do_the_rest(driver, if_idle, turn, goes_on=goes_on)
            except BrokerClosed:
                return
            except RowqError as error:
                _log.warning("maintenance failed and will retry: %s", error)
            except Exception:
                _log.exception("maintenance failed and will retry")
            pause = self._pause(time.perf_counter() - started)
        if not self._dialect.has_one_writer:
            with suppress(RowqError):
                driver.drive(self._leave_duty())

    def _pause(self, took: float) -> float:
        """Seconds until the next turn. Removal is not held to its share of the time: it has to keep up with the writers."""
        if self._is_removing:
            return 0.0 if self._retiring.is_behind else TURN_EVERY
        return min(LONGEST_PAUSE, max(TURN_EVERY, took * SHARE))

    def _do_the_rest(self, driver: Driver, if_idle: Callable[[Callable[[], None]], Any], turn: int, *, goes_on: bool) -> None:
        if goes_on or running() >= self._retire_at:
            self._retire(driver, goes_on=goes_on)
        if turn % self._dialect.tidy_every == 0:
            if_idle(lambda: self._dialect.tidy(thoroughly=turn % TIDY_THOROUGHLY_EVERY == 0))

    def _retire(self, driver: Driver, *, goes_on: bool) -> None:
        """In every turn while there is much to remove, else once a minute; in the first turn too, since some processes are short-lived."""
        is_anew = running() >= self._retire_at and not (goes_on and self._retiring.is_behind)
        if is_anew:
            self._retire_at = running() + self._retiring.every
        retired = driver.drive(self._retiring.all(RETIRE_FOR, goes_on=not is_anew))
        self._retire_at = min(self._retire_at, running() + self._retiring.every)
        self._is_removing = retired >= PIECE
        self._is_retiring = self._is_removing or self._retiring.is_behind

    def _take_duty(self) -> Operation[bool]:
        """One process per database does the maintenance; True if it is this one."""
        has_duty: bool = yield Execute(lambda tx: registry.take_duty(tx, DUTY, self._me, tx.now + DUTY_MS), durable=False)
        return has_duty

    def _leave_duty(self) -> Operation[None]:
        yield Execute(lambda tx: registry.leave_duty(tx, DUTY, self._me), durable=False)

    def _queues(self) -> list[str]:
        with self._dialect.reading() as session:
            return [row[0] for row in session.rows("read_all_settings")]

    def _list_expired(self, queue: str) -> array[int]:
        with self._dialect.reading() as session:
            return array("q", (row[0] for row in session.stream("list_expired", queue=queue)))

    def _in_all_queues(self, take: Callable[[str], Operation[int]]) -> Operation[int]:
        count = 0
        for queue in (yield Read(self._queues_with_work)):
            count += yield from take(queue)
        return count

    def _queues_with_work(self) -> list[str]:
        now = self._clock.now()
        with self._dialect.reading() as session:
            return [row[0] for row in session.rows("find_queues_with_work", now=now, late=now - expiry.LATE_MS)]

    def _is_anything_ended(self) -> bool:
        with self._dialect.reading() as session:
            return bool(session.rows("is_anything_ended", now=self._clock.now()))


def _in_pieces(act: Callable[[Transaction], int]) -> Operation[int]:
    count = 0
    while piece := (yield Execute(act, durable=False)):
        count += piece
        if piece < PIECE:
            break
    return count


def _take_due(queue: str) -> Operation[int]:
    return _in_pieces(lambda tx: expiry.take_due(tx, queue, PIECE))


def _take_lease_expired(queue: str) -> Operation[int]:
    """Uses the transaction's time: if the clock was set back since the run began, leases younger than that stay."""
    return _in_pieces(lambda tx: expiry.take_lease_expired(tx, queue, tx.now - expiry.LATE_MS, PIECE))


def _take_ended() -> Operation[int]:
    ended, looked = 0, PIECE
    while looked == PIECE:
        looked, gone = yield Execute(lambda tx: expiry.take_ended(tx, PIECE), durable=False)
        ended += gone
    return ended


_TRIES = 100
_PAUSE = 0.01
_TURN = round(TURN_EVERY * 1000)
_RETIRING = round(RETIRE_EVERY * 1000)
_TIDYING = TIDY_THOROUGHLY_EVERY * _TURN


class MaintenanceTask(msgspec.Struct, frozen=True):
    """`every_ms`: how often maintenance runs it by itself; None if it only runs on request."""

    name: str
    summary: str
    every_ms: int | None


TASKS = (
    MaintenanceTask("due", "makes delayed messages available when they are due", _TURN),
    MaintenanceTask("stale", "ends expired leases: the message returns, or has used up its attempts", _TURN),
    MaintenanceTask("expired", "ends messages whose TTL has expired: most become dead letters", _TURN),
    MaintenanceTask("expired-dlq", "removes dead letters older than dlq_ttl", _RETIRING),
    MaintenanceTask(
        "failed", "turns messages without attempts left into dead letters: a nack does so at once, an expired lease with stale", _TURN
    ),
    MaintenanceTask(
        "failed-dlq", "removes dead letters without attempts left, if dlq_exhausted says so; at the same times as failed", _TURN
    ),
    MaintenanceTask("retention", "removes dead letters, history and audit at the end of their retention", _RETIRING),
    MaintenanceTask("optimize", "maintains the statistics and the log of the database", _TIDYING),
    MaintenanceTask("depth", "counts all messages still to be processed; metrics do so by themselves", None),
)


class MaintenanceTasks:
    def __init__(
        self, dialect: Dialect, insights: Insights, maintenance: Maintenance, if_idle: Callable[[Callable[[], bool]], Any]
    ) -> None:
        """`if_idle`: runs a function while there is no writer."""
        self._dialect = dialect
        self._insights = insights
        self._if_idle = if_idle
        self._runs: dict[str, Callable[[], Operation[int]]] = {
            "due": maintenance.take_due,
            "stale": maintenance.take_lease_expired,
            "expired": maintenance.take_ended,
            "expired-dlq": maintenance.retire_dead,
            "failed": maintenance.take_lease_expired,
            "failed-dlq": maintenance.take_lease_expired,
            "retention": maintenance.retire,
            "optimize": self._optimize,
            "depth": self._depth,
        }

    def run(self, name: str) -> Operation[int]:
        """How many messages it touched; for optimize 1, or 0 if other writers were busy all the time."""
        if check_text(name, "the name of a maintenance task") not in self._runs:
            raise NotFound(f"there is no maintenance task {name!r}; tasks are: {', '.join(self._runs)}")
        return self._runs[name]()

    def _optimize(self) -> Operation[int]:
        for _ in range(_TRIES):
            if (yield Read(self._try_to_tidy)):
                return 1
            yield Sleep(_PAUSE)
        return 0

    def _try_to_tidy(self) -> bool:
        """In a thread of its own: an interrupted one would hold the writer's turn forever."""
        with ThreadPoolExecutor(1, thread_name_prefix="rowq-optimize") as thread:
            return bool(thread.submit(self._if_idle, self._tidy).result())

    def _tidy(self) -> bool:
        self._dialect.tidy(thoroughly=True)
        return True

    def _depth(self) -> Operation[int]:
        depth: int = yield Read(lambda: sum(stats.depth for stats in self._insights.queues()))
        return depth
