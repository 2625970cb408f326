"""What holds for every run of hours: it tells how far it is, and closes what it has opened when somebody ends it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rowq.cli.terminal import Advance, bar

EVERY = 60.0
"""Seconds between two lines where no bar can be drawn."""
_WORDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def hear_interrupts() -> None:
    """Whoever ends it, and however, all that is open is closed: SIGTERM would skip that, and a shell's background job ignores SIGINT.

    The first word counts. A second one, while things are closed, would leave some of them behind.
    """

    def interrupt(*_: object) -> None:
        for word in _WORDS:
            signal.signal(word, signal.SIG_IGN)
        raise KeyboardInterrupt

    for word in _WORDS:
        signal.signal(word, interrupt)


@contextmanager
def telling(title: str, total: int, every: float = EVERY) -> Iterator[Advance]:
    """A bar on a terminal; elsewhere a line a minute on stderr, also while nothing moves."""
    if sys.stderr.isatty():
        with bar(title, total) as drawn:
            yield drawn
        return
    began, done, is_over = time.monotonic(), 0, threading.Event()

    def advance(by_now: int) -> None:
        nonlocal done
        done = by_now

    def tell() -> None:
        while not is_over.wait(every):
            print(f"{title}: {done:,} of {total:,} after {(time.monotonic() - began) / 60:.0f} min", file=sys.stderr, flush=True)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield advance
    finally:
        is_over.set()
        thread.join()
