"""Waiting for what another thread or process does: until a condition holds, and never beyond a deadline."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

DEADLINE = float(os.environ.get("DEADLINE_OF_TESTS", "60"))
"""Seconds after which a test gives up: only a hang takes that long, on a busy machine too. Sabotage, which provokes hangs, sets less."""
_PAUSE = 0.002


def eventually(condition: Callable[[], Found], within: float = DEADLINE) -> Found:
    """The first true answer of the condition."""
    until = time.monotonic() + within
    pause = threading.Event()
    while not (found := condition()):
        if time.monotonic() > until:
            raise AssertionError(f"{condition} did not come true within {within} s")
        pause.wait(_PAUSE)
    return found


async def eventually_async(condition: Callable[[], Found], within: float = DEADLINE) -> Found:
    """The same, while the event loop goes on."""
    return await asyncio.to_thread(eventually, condition, within)
