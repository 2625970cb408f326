"""Upkeep: what time alone makes necessary, done in the background in small pieces, or at once by `sweep`.

What may be due is looked up on a reading connection first, so a queue with nothing to do costs no write.
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
DUTY_MS = 10_000
"""How long a process that says no more is taken for the one that keeps everything up."""
SWEEP_EVERY = 1.0
SHARE = 10
"""It may take one part in so many of the time."""
LONGEST_PAUSE = 5.0
"""Less than a duty lasts."""
RETIRE_FOR = 5.0
"""Seconds of a turn: the duty has to be renewed, and others may wait for what is due."""
TIDY_THOROUGHLY_EVERY = 3_600

_log = logging.getLogger("rowq.upkeep")


class Swept(msgspec.Struct, frozen=True):
    """How many messages a sweep touched, by what had become of them."""

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
        """It goes on in the next turn; and so much was removed in this one that there will be more."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._me = secrets.token_hex(8)

    def sweep(self) -> Operation[Swept]:
        """Everything, at once."""
        due, lease_expired, expired = yield from self.take_up()
        retired = yield from self.retire()
        return Swept(due, lease_expired, expired, retired)

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
        """Expired leases: back to their queue, or used up."""
        return self._in_all_queues(_take_lease_expired)

    def take_ended(self) -> Operation[int]:
        return (yield from _take_ended()) if (yield Read(self._is_anything_ended)) else 0

    def retire_dead(self) -> Operation[int]:
        """Dead letters older than the dlq_ttl of their queue."""
        return self._retiring.dead()

    def retire(self) -> Operation[int]:
        """What is kept for a while only: dead letters with a TTL, history, audit, ids of messages that are gone."""
        return self._retiring.all()

    def reap(self) -> Operation[int]:
        """Messages that are kept as expired, of all queues, whatever their retention says."""
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
            goes_on, self._is_retiring, self._is_removing = self._is_retiring, False, False
            try:
                if self._dialect.has_one_writer or driver.drive(self._take_duty()):
                    try:
                        driver.drive(self.take_up())
                    finally:  # one message that somebody holds locked must not stop everything else
                        self._do_the_rest(driver, if_idle, turn, goes_on=goes_on)
            except BrokerClosed:
                return
            except RowqError as error:
                _log.warning("upkeep failed, and goes on in a moment: %s", error)
            except Exception:
                _log.exception("upkeep failed; it goes on in a second")
            pause = self._pause(time.perf_counter() - started)
        if not self._dialect.has_one_writer:
            with suppress(RowqError):
                driver.drive(self._leave_duty())

    def _pause(self, took: float) -> float:
        """Until the next turn. What it removes was written by others, who did not ask for its share of the time either."""
        if self._is_removing:
            return 0.0 if self._retiring.is_behind else SWEEP_EVERY
        return min(LONGEST_PAUSE, max(SWEEP_EVERY, took * SHARE))

    def _do_the_rest(self, driver: Driver, if_idle: Callable[[Callable[[], None]], Any], turn: int, *, goes_on: bool) -> None:
        if goes_on or running() >= self._retire_at:
            self._retire(driver, goes_on=goes_on)
        if turn % self._dialect.tidy_every == 0:
            if_idle(lambda: self._dialect.tidy(thoroughly=turn % TIDY_THOROUGHLY_EVERY == 0))

    def _retire(self, driver: Driver, *, goes_on: bool) -> None:
        """In every turn as long as there is much to remove, else once a minute; in the first turn too, since not every process stays."""
        is_anew = running() >= self._retire_at and not (goes_on and self._retiring.is_behind)
        if is_anew:
            self._retire_at = running() + self._retiring.every
        retired = driver.drive(self._retiring.all(RETIRE_FOR, goes_on=not is_anew))
        self._retire_at = min(self._retire_at, running() + self._retiring.every)
        self._is_removing = retired >= PIECE
        self._is_retiring = self._is_removing or self._retiring.is_behind

    def _take_duty(self) -> Operation[bool]:
        """Of all processes on a database one sweeps; True when it is this one."""
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
    """By the time of the transaction: where the clock was set back since the sweep began, leases that are younger than that stay."""
    return _in_pieces(lambda tx: expiry.take_lease_expired(tx, queue, tx.now - expiry.LATE_MS, PIECE))


def _take_ended() -> Operation[int]:
    ended, looked = 0, PIECE
    while looked == PIECE:
        looked, gone = yield Execute(lambda tx: expiry.take_ended(tx, PIECE), durable=False)
        ended += gone
    return ended


_TRIES = 100
_PAUSE = 0.01
_TURN = round(SWEEP_EVERY * 1000)
_RETIRING = round(RETIRE_EVERY * 1000)
_TIDYING = TIDY_THOROUGHLY_EVERY * _TURN


class Sweep(msgspec.Struct, frozen=True):
    """`every_ms`: how often upkeep does it by itself; None where it only happens when somebody asks."""

    name: str
    summary: str
    every_ms: int | None


SWEEPS = (
    Sweep("due", "delayed messages whose time has come may be received", _TURN),
    Sweep("stale", "leases that ran out: the message comes back, or has used up its attempts", _TURN),
    Sweep("expired", "messages at the end of their TTL leave, most of them as dead letters", _TURN),
    Sweep("expired-dlq", "dead letters at the end of dlq_ttl are removed", _RETIRING),
    Sweep("failed", "what has used up its attempts becomes a dead letter: a nack does so at once, a lease that ran out with stale", _TURN),
    Sweep("failed-dlq", "dead letters that have used up theirs are removed, where dlq_exhausted says so; when, see failed", _TURN),
    Sweep("retention", "dead letters, history and audit that were kept for long enough are removed", _RETIRING),
    Sweep("optimize", "the database looks after its statistics and its log", _TIDYING),
    Sweep("depth", "all that is still to be done is counted; metrics do that by themselves", None),
)


class MaintenanceTasks:
    def __init__(self, dialect: Dialect, insights: Insights, upkeep: Maintenance, if_idle: Callable[[Callable[[], bool]], Any]) -> None:
        """`if_idle`: runs what nobody may write beside."""
        self._dialect = dialect
        self._insights = insights
        self._if_idle = if_idle
        self._runs: dict[str, Callable[[], Operation[int]]] = {
            "due": upkeep.take_due,
            "stale": upkeep.take_lease_expired,
            "expired": upkeep.take_ended,
            "expired-dlq": upkeep.retire_dead,
            "failed": upkeep.take_lease_expired,
            "failed-dlq": upkeep.take_lease_expired,
            "retention": upkeep.retire,
            "optimize": self._optimize,
            "depth": self._depth,
        }

    def run(self, name: str) -> Operation[int]:
        """How many messages it was about; of optimize 1, or 0 where others wrote all the time."""
        if check_text(name, "the name of a sweep") not in self._runs:
            raise NotFound(f"there is no sweep {name!r}; sweeps are: {', '.join(self._runs)}")
        return self._runs[name]()

    def _optimize(self) -> Operation[int]:
        for _ in range(_TRIES):
            if (yield Read(self._try_to_tidy)):
                return 1
            yield Sleep(_PAUSE)
        return 0

    def _try_to_tidy(self) -> bool:
        """In a thread of its own: an interrupted one would keep the writer's place for good."""
        with ThreadPoolExecutor(1, thread_name_prefix="rowq-optimize") as thread:
            return bool(thread.submit(self._if_idle, self._tidy).result())

    def _tidy(self) -> bool:
        self._dialect.tidy(thoroughly=True)
        return True

    def _depth(self) -> Operation[int]:
        depth: int = yield Read(lambda: sum(stats.depth for stats in self._insights.queues()))
        return depth
