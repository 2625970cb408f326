"""The parts of a broker around one database, shared by its sync and async interfaces."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from rowq.clock import Clock, running
from rowq.engine.executor import Executor
from rowq.engine.executor_pool import ExecutorPool
from rowq.engine.group_commit import GroupCommit
from rowq.engine.insights import Insights
from rowq.engine.maintenance import Maintenance, MaintenanceTasks
from rowq.engine.operation import Driver
from rowq.engine.verbs import Verbs
from rowq.engine.waiting import WaitingRoom
from rowq.errors import RowqError
from rowq.model.queue import Settings
from rowq.store import settle
from rowq.store.call import Call, Execute, Receive
from rowq.store.dialect import Dialect, Finding
from rowq.store.meter import Meter
from rowq.store.notify.notifier import Notification, Notifier
from rowq.store.notify.settings_cache import SettingsCache
from rowq.store.store import Store
from rowq.store.transaction import Transaction

T = TypeVar("T")

POLL_EVERY = 0.1
POLL_SHARE = 50
_RELEASED = 100
"""How many abandoned calls one transaction gives back."""


class Engine:
    def __init__(
        self,
        dialect: Dialect,
        clock: Clock,
        defaults: Settings,
        *,
        actor: str | None,
        timeout: float,
        maintenance: bool,
        notifier: Notifier | None = None,
        cache: SettingsCache | None = None,
    ) -> None:
        """`notifier`: how to notify other processes, if there is a way. `cache`: where settings are looked up before the database."""
        self.dialect = dialect
        self.clock = clock
        self.store = Store(dialect, clock, defaults, actor, cache)
        self.insights = Insights(dialect, defaults)
        self.maintenance = Maintenance(dialect, clock, defaults)
        self._group_commit: GroupCommit | ExecutorPool = (
            GroupCommit(Executor(self.store).perform, timeout=timeout)
            if dialect.has_one_writer
            else ExecutorPool(
                lambda patient: Executor(self.store, patient=patient).perform, timeout=timeout, has_async_group_commits=dialect.can_bridge
            )
        )
        self._group_commit.watch(self.give_back, self._leave_to_parent)
        self.maintenance_tasks = MaintenanceTasks(dialect, self.insights, self.maintenance, self._group_commit.if_idle)
        self._room = WaitingRoom(clock.now, self.store.times.next, self._find_arrivals)
        self._notifier = notifier
        self.store.on_notification = self._tell
        if dialect.has_one_writer and notifier is None:
            self.store.listeners = self._room.waiters  # head hints, which commits lower, are for databases with many writers
        if notifier is not None:
            notifier.listen(self._hear)
        self._left: deque[Receive] = deque()
        self._is_releasing = threading.Lock()
        self._news: int | None = None
        self._poll_at = 0.0
        self._is_closing = self._is_heard = False
        self.verbs = Verbs(self.insights, self._room, clock)
        self.driver = Driver(self._group_commit, self._room)
        if maintenance:
            self.maintenance.start(self.driver, self._group_commit.if_idle)

    @property
    def meter(self) -> Meter | None:
        return self.store.meter

    def attach(self, meter: Meter) -> None:
        """From now on the meter counts what is committed. May be called at any time, from any thread."""
        self.store.meter = meter

    @property
    def waiting(self) -> int:
        """How many consumers wait for messages."""
        return self._room.count()

    def ping(self) -> None:
        """Raises an error when the database does not answer."""
        self.check_open()
        with self.dialect.reading() as session:
            session.rows("read_settings_version")

    def examine(self) -> list[Finding]:
        return self.dialect.examine()

    def perform(self, call: Call[T]) -> T:
        """Performs one call, together with others that arrive meanwhile."""
        return self._group_commit.run(call)

    def act(self, function: Callable[[Transaction], T], *, durable: bool = True) -> T:
        """Runs the function in a transaction."""
        return self.perform(Execute(function, durable=durable))

    def check_open(self) -> None:
        self._group_commit.check_open()

    def close(self) -> None:
        if self._group_commit.is_forked:
            return  # its threads and connections belong to the parent
        self._is_closing = True
        self.dialect.hurry()
        self.maintenance.stop()
        if self._notifier is not None:
            self._notifier.close()
        self.store.cache.close()
        self._group_commit.close(self.dialect.close)
        self._room.close()

    def _tell(self, notification: Notification) -> None:
        """Publishes what this process has committed."""
        self._room.wake({topic: count for topic, (count, _) in notification.ready.items()})
        if self._notifier is not None:
            self._notifier.tell(notification)

    def _hear(self, notification: Notification) -> None:
        """Handles what another process has committed."""
        self.store.hear(notification)
        self._room.wake({topic: count for topic, (count, _) in notification.ready.items()})

    def _find_arrivals(self, topics: list[str]) -> Collection[str]:
        """Topics to which another process may have written. News also makes cached settings stale."""
        was_heard, self._is_heard = self._is_heard, self._notifier is not None and self._notifier.is_heard()
        if self._is_closing or (self._is_heard and was_heard):
            return ()
        if self._is_heard:  # notifications sent before we listened are in the tables by now
            self.store.distrust_settings()
            return topics
        if not self.dialect.has_one_writer:
            return self._poll(topics)
        news = self._group_commit.if_idle(self.dialect.news)
        if news is None or news == self._news:
            return ()
        self._news = news
        self.store.distrust_settings()
        return topics

    def _poll(self, topics: list[str]) -> Collection[str]:
        """Without notifications: ten times a second, or less often if a poll is slow."""
        started = running()
        if started < self._poll_at:
            return ()
        try:
            found = self.dialect.find_ready(topics)
        except RowqError:
            if not self._is_closing:
                raise
            return ()
        self._poll_at = running() + min(1.0, max(POLL_EVERY, (running() - started) * POLL_SHARE))
        return found

    def give_back(self, call: Call[Any]) -> None:
        """Releases messages leased to a caller that has gone away, except where that could deliver one twice."""
        if isinstance(call, Receive) and call.result:
            self._left.append(call)
            self._start_releasing()

    def _start_releasing(self) -> None:
        """One thread at a time: many callers may go away at once, and an event loop reports each of them."""
        if self._left and self._is_releasing.acquire(blocking=False):
            try:
                threading.Thread(target=self._release, name="rowq-release", daemon=True).start()
            except RuntimeError:  # too many threads: the next abandoned call tries again
                self._is_releasing.release()

    def _release(self) -> None:
        try:
            while calls := [self._left.popleft() for _ in range(min(len(self._left), _RELEASED))]:
                with suppress(RowqError):  # closed meanwhile, or the database is unavailable: the leases will expire
                    self._group_commit.run(Execute(partial(settle.release, calls=calls), durable=False))
        finally:
            self._is_releasing.release()
        self._start_releasing()  # more calls may have been abandoned since the last look

    def _leave_to_parent(self) -> None:
        """Runs in the child of a fork."""
        self.dialect.leave_to_parent()
        self.store.cache.leave_to_parent()
        if self._notifier is not None:
            self._notifier.leave_to_parent()
