"""The store: what all lanes of a process share around one database."""

from __future__ import annotations

import logging
from collections.abc import Callable

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
        """Told of what has become ready, once that is committed."""
        self.made_queues: set[str] = set()
        """Queues that have a row, unless somebody has deleted them since."""
        self._redrives = 0
        self.distrusted = 0
        """How often settings were found to have changed."""

    def distrust_settings(self) -> None:
        """They are read again by the next transaction of each lane."""
        self.made_queues.clear()
        self.distrusted += 1

    def news(self) -> int:
        """A number that changes whenever a queue may hold more than one lane knows of."""
        return self.dialect.news() + (self._redrives << 40)

    def tell(self, tx: Transaction) -> None:
        """It is committed: whatever goes wrong from here on must not do it again."""
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
            _log.exception("nobody was woken; waiters look once a second")

    def hear(self, notification: Notification) -> None:
        """What another process has told."""
        self.heads.lower({topic: place for topic, (_, place) in notification.ready.items() if place is not None})
        if notification.settings:
            self.distrust_settings()
