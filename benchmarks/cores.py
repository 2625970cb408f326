"""How busy the cores were, and what a server's processes took of them, as the system counts it."""

from __future__ import annotations

import os
from contextlib import suppress

import psutil

_IDLE = ("idle", "iowait")
_COUNTED_TWICE = ("guest", "guest_nice")
"""Linux has them in the time of ordinary programs already."""


class Cores:
    """Begins to count when it is made."""

    def __init__(self) -> None:
        self._before = _spent()

    def busy(self) -> list[float]:
        """Each core that is ours to use, in percent of the time since then."""
        cores = [{what: now[what] - then[what] for what in now} for now, then in zip(_spent(), self._before, strict=True)]
        return [100 * (1 - sum(core.get(what, 0) for what in _IDLE) / max(1e-9, sum(core.values()))) for core in cores]


def _spent() -> list[dict[str, float]]:
    """A core's seconds, by what they went into."""
    every = [times._asdict() for times in psutil.cpu_times(percpu=True)]
    ours = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(every))
    return [{what: spent for what, spent in every[core].items() if what not in _COUNTED_TWICE} for core in ours]


def cpu_of_server(pid: int) -> float:
    """Seconds that a process has spent, and all that it started: those that have ended, such as backends, are in its own count.

    0 for no process.
    """
    if not pid:
        return 0.0
    server = psutil.Process(pid)
    while True:
        before = server.cpu_times()
        spent = 0.0
        for process in server.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                spent += times.user + times.system
        now = server.cpu_times()
        if before[2:4] == now[2:4]:  # else one has ended meanwhile, and could be counted twice or not at all
            return float(spent + sum(now[:4]))
