"""Remembers when each topic has its next due message or lease expiry, so that a receive need not look every time.

A look walks the index of due times from a floor on: everything below it was taken up a moment ago. While an open snapshot still sees
deleted rows, a look from the beginning walks over all of them; that is done once a second, or less often if it takes long.
"""

from __future__ import annotations

import threading

import msgspec

from rowq.store.transaction import Look, Transaction

LOOK_EVERY_MS = 100
"""Another process may have scheduled a message."""
FULL_LOOK_EVERY_MS = 1_000
AHEAD_MS = 1_500
"""How far a look reaches ahead: a waiting receive looks again once a second in any case."""
FOR_EVER = 1 << 62
_MARGIN_MS = 1_000
"""The floor stays this far below the last look: a transaction that was open then may have committed since."""
_SHARE = 50
"""Looks that are not cheap may take 1/50 of the time."""
_CHEAP_MS = 5
_LONGEST_MS = 5_000
"""The longest pause after a slow look, which may have met a stall."""
_BEGINNING = -1
_MOST = 10_000


class _Topic(msgspec.Struct):
    next: int | None = None
    looked_at: int | None = None
    looked_fully_at: int | None = None
    floor: int = _BEGINNING
    took_ms: int = 0
    took_fully_ms: int = 0


class Times:
    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._lock = threading.Lock()

    def look(self, topic: str, now: int) -> Look | None:
        """What to look at now; None if it is too early. If the clock went back, the look starts from the beginning."""
        known = self._topics.get(topic)
        if known is None or known.looked_at is None or now < known.looked_at:
            return Look(_BEGINNING)
        since = now - known.looked_at
        if since < _pause(known.took_ms, 0 if known.next is not None and known.next <= now else LOOK_EVERY_MS):
            return None
        if known.looked_fully_at is None or now - known.looked_fully_at >= _pause(known.took_fully_ms, FULL_LOOK_EVERY_MS):
            return Look(_BEGINNING, known.took_ms < _CHEAP_MS)
        return Look(known.floor, known.took_ms < _CHEAP_MS)

    def next(self, topic: str) -> int | None:
        known = self._topics.get(topic)
        return None if known is None else known.next

    def falls_due(self, topic: str, due: int) -> None:
        """A message of the topic was leased or scheduled until then."""
        with self._lock:
            self._falls_due(topic, due)

    def _falls_due(self, topic: str, due: int) -> None:
        known = self._of(topic)
        if known.next is None or due < known.next:
            known.next = due

    def learn(self, tx: Transaction) -> None:
        """Takes over what a committed transaction found."""
        with self._lock:
            for topic, look in tx.looked.items():
                self._looked(self._of(topic), look, tx.now)
            for topic, due in tx.due.items():
                self._falls_due(topic, due)

    def _looked(self, known: _Topic, look: Look, now: int) -> None:
        known.looked_at = now
        if look.next is not None or (known.next is not None and known.next <= now):
            known.next = look.next
        if look.floor == _BEGINNING:
            known.looked_fully_at, known.took_fully_ms = now, look.took_ms
        else:
            known.took_ms = look.took_ms
        if look.is_complete:
            known.floor = max(_BEGINNING, now - _MARGIN_MS)
        else:
            known.next = now  # more is due: the next receive looks at once

    def _of(self, topic: str) -> _Topic:
        if len(self._topics) >= _MOST and topic not in self._topics:
            self._topics.clear()
        return self._topics.setdefault(topic, _Topic())


def _pause(took_ms: int, usual: int) -> int:
    return usual if took_ms < _CHEAP_MS else max(usual, min(took_ms * _SHARE, _LONGEST_MS))
