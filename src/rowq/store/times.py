"""Remembers, for each topic, when it will have something without anybody sending, so that a receive need not look every time."""

from __future__ import annotations

from rowq.store.work import Work

LOOK_EVERY_MS = 100
"""Another process may have scheduled something that we know nothing of."""


class Times:
    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._looked_at: dict[str, int] = {}

    def should_look(self, topic: str, now: int) -> bool:
        known = self._next.get(topic)
        if known is not None and known <= now:
            return True
        return not 0 <= now - self._looked_at.get(topic, -LOOK_EVERY_MS) < LOOK_EVERY_MS

    def next(self, topic: str) -> int | None:
        return self._next.get(topic)

    def learn(self, work: Work) -> None:
        """Takes over what a transaction has found out, once it is committed."""
        for topic, next_at in work.looked.items():
            self._looked_at[topic] = work.now
            if next_at is None:
                self._next.pop(topic, None)
            else:
                self._next[topic] = next_at
        for topic, due in work.due.items():
            known = self._next.get(topic)
            if known is None or due < known:
                self._next[topic] = due
