"""Batches leased before Spark asks for them, by a thread of the process that holds the stream, while Spark processes the previous one. The
next `take` finds them, as it finds a batch left by a crash."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from msgspec import Struct

from rowq.errors import RowqError

_log = logging.getLogger("rowq.spark")

LONGEST_FAREWELL = 5.0
"""Seconds that a transaction has to finish."""


class Wish(Struct, frozen=True):
    """Batches after the one that Spark processes; no more of them once they hold `enough` messages."""

    after: int
    most: int
    enough: int | None


class Prefetcher:
    """`lease` creates one batch and gives its number; `wish.after` while there is too little to take, None when the wish is fulfilled."""

    def __init__(self, lease: Callable[[Wish], int | None], pause: float) -> None:
        self._lease = lease
        self._pause = pause
        self._wish: Wish | None = None
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="rowq-prefetch", daemon=True)
        self._thread.start()

    def ask(self, wish: Wish | None) -> None:
        """Replaces the previous wish."""
        with self._changed:
            self._wish = wish
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(LONGEST_FAREWELL)

    def _run(self) -> None:
        while (wish := self._next()) is not None:
            made = self._try(wish)
            with self._changed:
                if made is None and self._wish is wish:
                    self._wish = None
                elif made == wish.after:
                    self._changed.wait_for(lambda wish=wish: self._is_closed or self._wish is not wish, self._pause)  # type: ignore[misc]

    def _next(self) -> Wish | None:
        """None means the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._wish is not None)
            return None if self._is_closed else self._wish

    def _try(self, wish: Wish) -> int | None:
        try:
            return self._lease(wish)
        except RowqError as error:  # Spark's next request fails with it too, and reports it there
            _log.warning("nothing is leased ahead of batch %s: %s", wish.after, error)
            return None
