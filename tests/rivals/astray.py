"""A part that is played on a host whose clock is wrong.

python -m tests.rivals.astray SECONDS MODULE ARGUMENTS…
"""

from __future__ import annotations

import runpy
import sys
import time


def set_the_clock_wrong(seconds: float) -> None:
    """Whoever asks for the time of day hears another one. What only ever runs forward, from nowhere in particular, is right."""
    right_time, right_ns, right_clock = time.time, time.time_ns, time.clock_gettime
    time.time = lambda: right_time() + seconds
    time.time_ns = lambda: right_ns() + int(seconds * 1e9)
    time.clock_gettime = lambda id: right_clock(id) + (seconds if id == time.CLOCK_REALTIME else 0)


if __name__ == "__main__":
    set_the_clock_wrong(float(sys.argv[1]))
    module = sys.argv[2]
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__")
