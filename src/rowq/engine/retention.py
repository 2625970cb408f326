"""Retention: what is kept for a limited time is removed in batches, as fast as it accumulates.

At full speed a message leaves four lines of history and audit behind, all of which have to be removed later. So a batch is sized by time
and not by a fixed number of rows: removal gets its share of the writer's time, however fast others write.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rowq.clock import Clock
from rowq.engine.operation import Operation, Read
from rowq.model.queue import Policy, Settings, resolve
from rowq.store import access, expiry, registry, request
from rowq.store.call import Execute
from rowq.store.dialect import Dialect, Session
from rowq.store.policy import read_settings
from rowq.store.stream import stage
from rowq.store.transaction import Transaction

PIECE = 500
MOST = 10_000
"""Maximum rows per batch: their numbers travel to the database in one list."""
MOMENT, LONGEST = 0.03, 0.2
"""Seconds that a batch may take; and on a machine so busy that other writers are slow too."""
EVERY = 60.0
"""Seconds between two runs; less if something is kept for less."""

_Retire = Callable[[Transaction, str, int], int]


class _Removed(NamedTuple):
    """How many rows were removed; and the line after which to continue, None when finished."""

    gone: int
    after: int | None


_Part = Callable[[Transaction, int, int], _Removed]
"""Removes, after a line, up to a number of rows."""


class Retention:
    def __init__(self, dialect: Dialect, clock: Clock, defaults: Settings) -> None:
        self._dialect = dialect
        self._clock = clock
        self._defaults = defaults
        self._shortest = 0
        self._line = 0
        """The audit line reached so far."""
        self.is_behind = False
        """There was more to remove than time to remove it."""
        self.every = EVERY
        """Seconds until the next run."""

    def dead(self) -> Operation[int]:
        """Dead letters older than the dlq_ttl of their queue."""
        found = yield Read(self._find_retirable)
        return (yield from self._take_turns([_of_queue(*each) for each in found if each[0] is expiry.retire_dead], _Stride()))

    def all(self, seconds: float | None = None, *, goes_on: bool = False) -> Operation[int]:
        """Dead letters with a TTL, history, audit, ids of messages that are gone; then what belongs to no queue. Ends after `seconds`.

        `goes_on`: continues a run from a moment ago, so the audit lines that it passed over need not be checked again.
        """
        self._line = self._line if goes_on else 0
        stride = _Stride(seconds)
        parts = [_of_queue(*each) for each in (yield Read(self._find_retirable))]
        if (yield Read(self._is_audit_old)):
            parts.append(self._remove_audit)
        retired = yield from self._take_turns(parts, stride)
        is_behind, others = self.is_behind, (yield Read(self._find_others))
        yield from self._take_turns(others, stride)
        self.is_behind |= is_behind
        return retired

    def _take_turns(self, parts: Sequence[_Part], stride: _Stride) -> Operation[int]:
        """One batch of each in turn: a queue with much to remove does not delay the others."""
        left, count = deque((part, self._line) for part in parts), 0
        while left and not stride.is_over:
            part, after = left.popleft()
            removed: _Removed = yield stride.piece(part, after)
            count += removed.gone
            if removed.after is not None:
                left.append((part, removed.after))
            if part == self._remove_audit:
                self._line = after if removed.after is None else removed.after
        self.is_behind = bool(left)
        return count

    def _remove_audit(self, tx: Transaction, after: int, limit: int) -> _Removed:
        """Audit lines are in order of time, those of all queues interleaved."""
        return _Removed(*expiry.retire_audit(tx, after, self._shortest, limit))

    def _find_retirable(self) -> list[tuple[_Retire, str]]:
        now = self._clock.now()
        with self._dialect.reading() as session:
            kept = [
                (queue, query, age, retire)
                for queue, policy in self._policies(session)
                for query, age, retire in (
                    ("list_old_dead", policy.dlq_ttl_ms, expiry.retire_dead),
                    ("list_old_history", policy.retention_ms, expiry.retire_history),
                    ("list_gone_own_ids", policy.audit_retention_ms, expiry.retire_own_ids),
                )
                if age
            ]
            self.every = min([EVERY, *(age / 1000 for _, _, age, _ in kept)])
            return [(retire, queue) for queue, query, age, retire in kept if session.rows(query, queue=queue, cutoff=now - age, limit=1)]

    def _find_others(self) -> list[_Part]:
        now = self._clock.now()
        with self._dialect.reading() as session:
            return [
                _to_part(retire)
                for query, until, retire in (
                    ("list_old_requests", {"cutoff": now - request.KEPT_MS}, request.retire),
                    ("list_old_staged", {"cutoff": now - stage.KEPT_MS}, stage.retire),
                    ("list_silent_consumers", {"cutoff": now - registry.KEPT_MS}, registry.retire),
                    ("list_ended_sessions", {"now": now}, access.retire_sessions),
                )
                if session.rows(query, limit=1, **until)
            ]

    def _is_audit_old(self) -> bool:
        """Whether an audit line may be older than the shortest retention of any queue."""
        with self._dialect.reading() as session:
            ages = [policy.audit_retention_ms for _, policy in self._policies(session)]
            oldest = session.row("list_audit", after=self._line, limit=1)
        self._shortest = min((age for age in (*ages, resolve(self._defaults).audit_retention_ms) if age), default=0)
        return bool(self._shortest and oldest is not None and oldest[1] <= self._clock.now() - self._shortest)

    def _policies(self, session: Session) -> Iterator[tuple[str, Policy]]:
        for name, settings in session.rows("read_all_settings"):
            yield name, resolve(read_settings(settings), self._defaults)


class _Stride:
    """The batch size: what is removed in a moment; while others write all the time, a third to two thirds of all time."""

    def __init__(self, seconds: float | None = None) -> None:
        now = time.perf_counter()
        self._until = None if seconds is None else now + seconds
        self._size = PIECE
        self._asked_at, self._took = now - MOMENT, MOMENT

    @property
    def is_over(self) -> bool:
        return self._until is not None and time.perf_counter() >= self._until

    def piece(self, part: _Part, after: int) -> Execute[_Removed]:
        """The next batch. It is requested as soon as the previous one is done, so the time between them belongs to other writers."""
        now = time.perf_counter()
        passed, self._asked_at = now - self._asked_at, now
        if self._took < MOMENT / 2 or (self._took < LONGEST and self._took < passed / 3):
            self._size = min(MOST, self._size * 2)
        elif self._took > LONGEST * 2 or (self._took > MOMENT * 2 and self._took > passed * 2 / 3):
            self._size = max(PIECE, self._size // 2)

        def timed(tx: Transaction) -> _Removed:
            started = time.perf_counter()
            try:
                return part(tx, after, self._size)
            finally:
                self._took = time.perf_counter() - started

        return Execute(timed, durable=False)


def _of_queue(retire: _Retire, queue: str) -> _Part:
    return _to_part(lambda tx, limit: retire(tx, queue, limit))


def _to_part(retire: Callable[[Transaction, int], int]) -> _Part:
    def remove(tx: Transaction, after: int, limit: int) -> _Removed:
        gone = retire(tx, limit)
        return _Removed(gone, None if gone < limit else after)

    return remove
