"""Clocks that jump: a program whose time of day is off by what a small shared file says at that moment.

    python -m tests.support.astray CLOCK MODULE ARGUMENTS…

CLOCK is a file of 8 bytes, milliseconds as a signed number. What only ever runs forward (CLOCK_MONOTONIC, CLOCK_BOOTTIME) is right.
"""

from __future__ import annotations

import mmap
import runpy
import struct
import sys
import time
from pathlib import Path

_OFFSET = struct.Struct("<q")


class Offset:
    """How wrong the clock is. Whoever has the same file open sees a change at once."""

    def __init__(self, path: Path) -> None:
        with path.open("ab+") as file:
            file.truncate(_OFFSET.size)  # a new one is zeros then, however many begin with it at once
            self._shared = mmap.mmap(file.fileno(), _OFFSET.size)

    @property
    def ms(self) -> int:
        return int(_OFFSET.unpack(self._shared[:])[0])

    @ms.setter
    def ms(self, ms: int) -> None:
        self._shared[:] = _OFFSET.pack(ms)


def set_clock(clock: Path, ms: int) -> None:
    """So wrong is, from now on, whoever goes by this file."""
    Offset(clock).ms = ms


def go_astray(clock: Path) -> Offset:
    """From here on, whoever in this process asks for the time of day hears another one. Call it before rowq is imported."""
    offset = Offset(clock)
    right_time, right_ns, right_clock, right_clock_ns = time.time, time.time_ns, time.clock_gettime, time.clock_gettime_ns
    time.time = lambda: right_time() + offset.ms / 1000
    time.time_ns = lambda: right_ns() + offset.ms * 1_000_000
    time.clock_gettime = lambda id: right_clock(id) + (offset.ms / 1000 if id == time.CLOCK_REALTIME else 0)
    time.clock_gettime_ns = lambda id: right_clock_ns(id) + (offset.ms * 1_000_000 if id == time.CLOCK_REALTIME else 0)
    return offset


if __name__ == "__main__":
    go_astray(Path(sys.argv[1]))
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
