"""The store: what all executors of a process share for one database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sized

from rowq.clock import Clock
from rowq.model.queue import Settings
from rowq.store.dialect import Dialect
from rowq.store.due_time import Times
from rowq.store.head_hint import Heads
from rowq.store.meter import Meter
from rowq.store.notify.notifier import Notification
from rowq.store.notify.settings_cache import NoSettingsCache, SettingsCache
from rowq.store.transaction import Transaction

_log = logging.getLogger("rowq.store")


class Store:
    def __init__(self, dialect: Dialect, clock: Clock, defaults: Settings, actor: str | None, cache: SettingsCache | None = None) -> None:
        self.dialect = dialect
        self.cache = cache or NoSettingsCache()
        self.clock = clock
        self.defaults = defaults
        self.actor = actor
        self.times = Times()
        self.heads = Heads()
        self.meter: Meter | None = None
        self.on_notification: Callable[[Notification], None] = lambda notification: None
        """Called after a commit with what has become ready."""
        self.listeners: Sized = (self,)
        """Empty while a commit that makes messages ready concerns no one in this process."""
        self.made_queues: set[str] = set()
        """Queues that have a row, unless they were deleted since."""
        self._redrives = 0
        self.distrusted = 0
        """How often settings were found to have changed."""

    def distrust_settings(self) -> None:
        """The next transaction of each executor reads them again."""
        self.made_queues.clear()
        self.distrusted += 1

    def news(self) -> int:
        """A number that changes whenever a queue may hold more messages than an executor knows of."""
        return self.dialect.news() + (self._redrives << 40)

    def tell(self, tx: Transaction) -> None:
        """Called after the commit: an error must not reach the caller, which would repeat the transaction."""
        try:
            self.times.learn(tx)
            if tx.lowest:
                self.heads.lower(tx.lowest)
            if tx.has_changed_settings:
                self.distrust_settings()
            self._redrives += tx.has_redriven
            if tx.woken or tx.has_changed_settings:
                self.on_notification(
                    Notification({topic: (count, tx.lowest.get(topic)) for topic, count in tx.woken.items()}, tx.has_changed_settings)
                )
        except Exception:
            _log.exception("waiting receives were not woken; they poll once a second")

    def hear(self, notification: Notification) -> None:
        """Applies a notification of another process."""
        self.heads.lower({topic: place for topic, (_, place) in notification.ready.items() if place is not None})
        if notification.settings:
            self.distrust_settings()
