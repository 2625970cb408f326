"""A consumer's messages in flight: received, being processed, processed but not settled; and until when each is leased.

Workers ask here what to do next. No thread waits while it holds the lock, so threads and event loops share it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum

import msgspec

from rowq.engine.waiting import LoopWait, ThreadWait
from rowq.model.message import Delivery, Outcome

SETTLE_AFTER = 0.05
"""Seconds after which finished messages are settled, even if waiting would make the batch larger."""
LONGEST_REST = 5.0

How = ThreadWait | LoopWait


class Todo(Enum):
    FETCH = "fetch"
    SETTLE = "settle"
    LEAVE = "leave"


class Rest:
    """Waits to be woken, or this many seconds."""

    __slots__ = ("how", "seconds")

    def __init__(self, how: How, seconds: float) -> None:
        self.how = how
        self.seconds = seconds


class Handled(msgspec.Struct):
    """Deliveries to settle, by their settlement."""

    done: list[Delivery]
    failed: list[tuple[Delivery, str]]
    released: list[Delivery]


class InFlight:
    def __init__(self, batch_size: int, concurrency: int, how: Callable[[], How]) -> None:
        self._batch_size = batch_size
        self._concurrency = concurrency
        self._how = how
        self._lock = threading.Lock()
        self._fresh: deque[Delivery] = deque()
        self._finished = Handled([], [], [])
        self._until: dict[str, float] = {}
        """When the lease of a receipt ends, by the local clock."""
        self._settled_at = 0.0
        self._is_fetching = self._has_more = self._is_stopping = False
        self._resting: deque[How] = deque()

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def is_empty(self) -> bool:
        return not self._until

    @property
    def has_fresh(self) -> bool:
        return bool(self._fresh)

    def next(self) -> Todo | Delivery | Rest:
        """One worker fetches for all; while it waits, the others process what is there."""
        with self._lock:
            now = time.monotonic()
            if self._is_due(now):
                return Todo.SETTLE
            if self._is_stopping:
                return Todo.LEAVE
            if self._is_short() and not self._is_fetching:
                self._is_fetching = True
                return Todo.FETCH
            while self._fresh:
                delivery = self._fresh.popleft()
                if self._until[delivery.receipt] > now:
                    return delivery
                del self._until[delivery.receipt]  # another consumer's by now
            return self._rest(LONGEST_REST)

    def rest(self, seconds: float) -> Rest:
        with self._lock:
            return self._rest(seconds)

    def rested(self, rest: Rest) -> None:
        """Removes an awake worker from those to wake."""
        with self._lock, suppress(ValueError):
            self._resting.remove(rest.how)

    def fetched(self, deliveries: Sequence[Delivery], until: float) -> None:
        """Wakes as many workers as there are messages: one of them fetches next."""
        with self._lock:
            self._is_fetching = False
            self._has_more = len(deliveries) == self._batch_size
            self._fresh.extend(deliveries)
            self._until.update(dict.fromkeys([delivery.receipt for delivery in deliveries], until))
            if self._is_stopping:
                self._release_fresh()
            woken = [self._resting.popleft() for _ in range(min(len(deliveries), len(self._resting)))]
        for how in woken:
            how.wake()

    def release(self, deliveries: Sequence[Delivery], until: float) -> None:
        """They are returned uncounted."""
        with self._lock:
            self._finished.released += deliveries
            self._until.update(dict.fromkeys([delivery.receipt for delivery in deliveries], until))

    def finish(self, delivery: Delivery, error: str | None) -> None:
        with self._lock:
            if error is None:
                self._finished.done.append(delivery)
            else:
                self._finished.failed.append((delivery, error))

    def take_finished(self) -> Handled:
        with self._lock:
            taken, self._finished = self._finished, Handled([], [], [])
            self._settled_at = time.monotonic()
            return taken

    def put_back(self, finished: Handled) -> None:
        """The settle failed: it is tried again with what is finished by then."""
        with self._lock:
            self._finished.done += finished.done
            self._finished.failed += finished.failed
            self._finished.released += finished.released

    def forget(self, deliveries: Iterable[Delivery]) -> None:
        with self._lock:
            for delivery in deliveries:
                self._until.pop(delivery.receipt, None)

    def give_up(self) -> None:
        """Nothing can be settled any more: the leases expire."""
        with self._lock:
            self._fresh.clear()
            self._finished = Handled([], [], [])

    def is_overdue(self) -> bool:
        """Whether finished messages wait while all workers are busy."""
        with self._lock:
            return self._is_due(time.monotonic()) and bool(self._until)

    def ending_before(self, moment: float) -> list[str]:
        """Receipts whose lease is to be extended."""
        with self._lock:
            return [receipt for receipt, until in self._until.items() if 0 < until < moment]

    def extended(self, receipts: Sequence[str], outcomes: Sequence[Outcome], until: float) -> None:
        """A receipt that could not be extended is lost, unless it was settled meanwhile."""
        with self._lock:
            for receipt, outcome in zip(receipts, outcomes, strict=True):
                if receipt in self._until:
                    self._until[receipt] = until if outcome is Outcome.DONE else 0.0

    def is_lost(self, delivery: Delivery) -> bool:
        return self._until.get(delivery.receipt, 0.0) <= time.monotonic()

    def wake_all(self) -> None:
        with self._lock:
            woken = list(self._resting)
            self._resting.clear()
        for how in woken:
            how.wake()

    def stop(self) -> None:
        """Messages not yet begun are returned now, not when all workers have finished."""
        with self._lock:
            self._is_stopping = True
            self._release_fresh()
        self.wake_all()

    def _release_fresh(self) -> None:
        self._finished.released += self._fresh
        self._fresh.clear()

    def _is_short(self) -> bool:
        """Whether a worker will soon run out of messages; if the last fetch found few, those are processed first."""
        return not self._fresh or (self._has_more and len(self._fresh) < self._concurrency)

    def _is_due(self, now: float) -> bool:
        finished = self._finished
        count = len(finished.done) + len(finished.failed)
        if finished.released or count >= self._batch_size:
            return True
        return count > 0 and (not self._fresh or now - self._settled_at >= SETTLE_AFTER)

    def _rest(self, seconds: float) -> Rest:
        how = self._how()
        self._resting.append(how)
        return Rest(how, seconds)
