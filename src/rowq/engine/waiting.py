"""Waiting: consumers that found nothing wait here until a message is sent, a message becomes due, or their patience ends.

A wake-up is a hint: the woken consumer looks again. Senders wake as many waiters as they sent messages. A ticker, which runs only
while consumers wait, wakes one waiter of a topic when its next message becomes due, when another process has written, and once a
second as a safety net, however many wait.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

from rowq.errors import RowqError

_log = logging.getLogger("rowq.waiting")

TICK = 0.05
SAFETY = 1.0
MOST_KNOWN = 10_000
"""How many topics the ticker remembers the last look of: consumers may keep waiting for new topics while others wait too."""


class Waiter:
    """A consumer that waits for a topic; `wake` is called once, from any thread."""

    def __init__(self, topic: str, wake: Callable[[], None]) -> None:
        self.topic = topic
        self.wake = wake
        self.is_woken = False


class WaitingRoom:
    def __init__(
        self, now: Callable[[], int], next_time: Callable[[str], int | None], arrivals: Callable[[list[str]], Collection[str]]
    ) -> None:
        """`arrivals`: the topics to which another process may have written; called at every tick."""
        self._now = now
        self._next_time = next_time
        self._arrivals = arrivals
        self._changed = threading.Condition()
        self.waiters: dict[str, OrderedDict[Waiter, None]] = {}
        self._ticker: threading.Thread | None = None
        self._announced: dict[str, int] = {}
        self._looked: dict[str, float] = {}
        self._is_closed = False
        self._is_troubled = False
        """Logged once: an unavailable database would fill the log."""

    def enter(self, topic: str, wake: Callable[[], None]) -> Waiter:
        """From now on no wake-up of the topic is missed. Look once more after entering, then wait."""
        waiter = Waiter(topic, wake)
        with self._changed:
            if self._is_closed:
                waiter.is_woken = True
                wake()
                return waiter
            self.waiters.setdefault(topic, OrderedDict())[waiter] = None
            if self._ticker is None:
                self._ticker = threading.Thread(target=self._tick, name="rowq-waiting", daemon=True)
                self._ticker.start()
        return waiter

    def leave(self, waiter: Waiter, *, more: bool) -> None:
        """A waiter that leaves with all it asked for, or was woken and has not looked since, wakes the next: there may be more."""
        with self._changed:
            if not waiter.is_woken:
                self._remove(waiter)
        if more:
            self.wake({waiter.topic: 1})

    def wake(self, woken: Mapping[str, int]) -> None:
        chosen: list[Waiter] = []
        with self._changed:
            for topic, count in woken.items():
                waiters = self.waiters.get(topic, OrderedDict())
                for _ in range(min(count, len(waiters))):
                    waiter, _ = waiters.popitem(last=False)
                    waiter.is_woken = True
                    chosen.append(waiter)
                if not waiters:
                    self.waiters.pop(topic, None)
        for waiter in chosen:
            waiter.wake()

    def count(self) -> int:
        with self._changed:
            return sum(len(waiters) for waiters in self.waiters.values())

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            all_waiting = {topic: len(waiters) for topic, waiters in self.waiters.items()}
            ticker = self._ticker
            self._changed.notify_all()
        self.wake(all_waiting)
        if ticker is not None and ticker is not threading.current_thread():
            with suppress(RuntimeError):  # an interrupt hit while it was being started; it finds the room closed, and ends
                ticker.join()

    def _remove(self, waiter: Waiter) -> None:
        waiters = self.waiters.get(waiter.topic)
        if waiters is not None:
            waiters.pop(waiter, None)
            if not waiters:
                del self.waiters[waiter.topic]

    def _tick(self) -> None:
        self._announced, self._looked = {}, {}
        while True:
            with self._changed:
                if self._is_closed or not self.waiters:
                    self._ticker = None
                    return
                topics = list(self.waiters)
                self._changed.wait(self._until_next(topics))
            arrivals = self._ask_for_arrivals(topics)
            self.wake({topic: 1 for topic in topics if topic in arrivals or self._is_time(topic)})
            if len(self._looked) > MOST_KNOWN:
                self._announced, self._looked = {}, {topic: at for topic in topics if (at := self._looked.get(topic)) is not None}

    def _ask_for_arrivals(self, topics: list[str]) -> Collection[str]:
        try:
            return self._arrivals(topics)
        except Exception as error:
            if not self._is_troubled:
                unforeseen = not isinstance(error, RowqError)
                _log.warning("cannot see whether another process has written; waiters look once a second: %s", error, exc_info=unforeseen)
            self._is_troubled = True
            return ()

    def _until_next(self, topics: list[str]) -> float:
        now = self._now()
        times = [time for topic in topics if (time := self._next_time(topic)) is not None and time != self._announced.get(topic)]
        return min([TICK, *((time - now) / 1000 for time in times if time > now)])

    def _is_time(self, topic: str) -> bool:
        due = self._next_time(topic)
        is_due = due is not None and due <= self._now() and self._announced.get(topic) != due
        if is_due and due is not None:
            self._announced[topic] = due
        if not is_due and time.monotonic() - self._looked.setdefault(topic, time.monotonic()) < SAFETY:
            return False
        self._looked[topic] = time.monotonic()
        return True


class Interrupt:
    """Ends a wait early, from any thread: the wait returns what is there."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may set it in a thread that is just setting it
        self._wake: Callable[[], None] | None = None
        self.is_set = False

    def set(self) -> None:
        with self._lock:  # held until the waiter is woken: afterwards `wake` may belong to something else
            self.is_set = True
            if self._wake is not None:
                self._wake()

    @contextmanager
    def watched(self, wake: Callable[[], None]) -> Iterator[None]:
        """Inside the block, `wake` is called as soon as the interrupt is set."""
        with self._lock:
            self._wake = wake
            if self.is_set:
                wake()
        try:
            yield
        finally:
            with self._lock:
                self._wake = None


class ThreadWait:
    """How a thread waits."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def wake(self) -> None:
        self._event.set()

    def wait(self, seconds: float) -> None:
        self._event.wait(seconds)


class LoopWait:
    """How a coroutine waits."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()

    def wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._set)
        except RuntimeError:
            return  # the loop was closed while its waiters were waiting

    async def wait(self, seconds: float) -> None:
        await asyncio.wait([self._future], timeout=seconds)

    def _set(self) -> None:
        if not self._future.done():
            self._future.set_result(None)
