"""Head hints: where in a queue the last claim ended, so that the next one need not walk over deleted rows.

A database with several writers keeps a deleted row for as long as any snapshot may see it, and a claim that starts at the beginning
walks over all of them. So it starts where the last one ended. That is only a hint: a row may have been added below it, by another
process or out of order. A process that writes a row lowers its own hint; for rows of other processes there is a scan from the
beginning four times a second, or less often if it takes long (decision 21).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import msgspec

from rowq.store.dialect import Row
from rowq.store.notify.notifier import Place

Taken = tuple[list[Row], Place | None]
"""Rows, and the place of the last one."""

BEGINNING: Place = (-(1 << 62), -(1 << 62))
_SCAN_EVERY = 0.25
_CHEAP = 0.005
_SHARE = 50
"""Scans that are not cheap may take 1/50 of the time."""
_MOST = 10_000
_LONGEST = 10.0
"""The longest pause in seconds after a slow scan, which may have met a stall."""


class _Head(msgspec.Struct):
    place: Place = BEGINNING
    scanned_at: float = 0.0
    scan_took: float = 0.0
    claims: int = 0
    """Claims that are running now."""
    written: Place | None = None
    """The lowest place written while claims were running: they may not have seen it."""


class Heads:
    def __init__(self) -> None:
        self._heads: dict[str, _Head] = {}
        self._lock = threading.Lock()

    def take(self, queue: str, lowest: Place | None, take: Callable[[Place], Taken], *, is_choosy: bool = False) -> list[Row]:
        """Calls `take` from the hint on, or from the beginning if a scan is due or nothing was found.

        `lowest` is the lowest place that the transaction itself made ready. With a share filter (`is_choosy`), an empty result does not
        trigger a scan."""
        with self._lock:
            if len(self._heads) >= _MOST:
                self._heads.clear()
            head = self._heads.setdefault(queue, _Head())
            head.claims += 1
            place = head.place if lowest is None else min(head.place, lowest)
        end: Place | None = None
        try:
            is_scan = _is_scan_due(head, _SCAN_EVERY)
            rows, end = _scan(head, take, is_choosy=is_choosy) if is_scan else take(place)
            if not rows and not is_scan and not is_choosy and _is_scan_due(head, 0.0):
                is_scan = True
                rows, end = _scan(head, take)
            if end is not None and not is_scan:
                end = max(end, place)
            return rows
        finally:
            self._move(head, end)

    def lower(self, places: Mapping[str, Place]) -> None:
        """Rows were committed at these places or after them."""
        with self._lock:
            for queue, place in places.items():
                head = self._heads.get(queue)
                if head is not None:
                    head.place = min(head.place, place)
                    if head.claims:
                        head.written = place if head.written is None else min(head.written, place)

    def forget(self) -> None:
        """Forgets all hints: the claims behind them may have been rolled back."""
        with self._lock:
            self._heads.clear()

    def _move(self, head: _Head, end: Place | None) -> None:
        with self._lock:
            head.claims -= 1
            if end is not None:
                head.place = end if head.written is None else min(end, head.written)
            if not head.claims:
                head.written = None


def _scan(head: _Head, take: Callable[[Place], Taken], *, is_choosy: bool = False) -> Taken:
    """An empty scan with a share filter does not count: an unfiltered one stays due."""
    started = time.perf_counter()
    taken = take(BEGINNING)
    if taken[0] or not is_choosy:
        head.scanned_at = time.perf_counter()
        head.scan_took = head.scanned_at - started
    return taken


def _is_scan_due(head: _Head, every: float) -> bool:
    pause = every if head.scan_took < _CHEAP else min(head.scan_took * _SHARE, _LONGEST)
    return time.perf_counter() - head.scanned_at >= pause
