"""Head hints: where in a queue the last claim ended, so that the next one need not walk over what is long gone.

A database with several writers keeps a deleted row for as long as anybody's snapshot may see it, and a claim that begins at the
beginning walks over all of them. So it begins where the last one ended. That is a hint: a row may have come in below it, by
another process, or out of order. Whoever writes a row lowers the hint of its own process; for all others a scan from the
beginning comes four times a second, or less often where that takes long (decision 21).
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
"""A scan that is not cheap may take one part in so many of the time."""
_MOST = 10_000
_LONGEST = 10.0
"""Seconds: one that met a stall is not paid for for ever."""


class _Head(msgspec.Struct):
    place: Place = BEGINNING
    scanned_at: float = 0.0
    scan_took: float = 0.0
    claims: int = 0
    """Under way at this moment."""
    written: Place | None = None
    """The lowest that was written since: a claim that was under way may not have seen it."""


class Heads:
    def __init__(self) -> None:
        self._heads: dict[str, _Head] = {}
        self._lock = threading.Lock()

    def take(self, queue: str, lowest: Place | None, take: Callable[[Place], Taken], *, is_choosy: bool = False) -> list[Row]:
        """What `take` finds from the hint on, or from the beginning where that is due or nothing was found.

        `lowest` is where the transaction itself has made something ready. Who is choosy and finds nothing leaves it at that."""
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
        """Rows were committed at these places, or further on."""
        with self._lock:
            for queue, place in places.items():
                head = self._heads.get(queue)
                if head is not None:
                    head.place = min(head.place, place)
                    if head.claims:
                        head.written = place if head.written is None else min(head.written, place)

    def forget(self) -> None:
        """What was claimed may have been rolled back."""
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
    """One that was choosy and found nothing has seen nothing for the others: theirs stays due."""
    started = time.perf_counter()
    taken = take(BEGINNING)
    if taken[0] or not is_choosy:
        head.scanned_at = time.perf_counter()
        head.scan_took = head.scanned_at - started
    return taken


def _is_scan_due(head: _Head, every: float) -> bool:
    pause = every if head.scan_took < _CHEAP else min(head.scan_took * _SHARE, _LONGEST)
    return time.perf_counter() - head.scanned_at >= pause
