"""Looks from beside, once a second: memory, files, and how busy the machine is with something else."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from tests.support.serving import Served
from trust.soak.record import Reading
from trust.soak.scene import Database

SELDOM = 5.0
"""Seconds between looks that cost more: at a database server, and at all processes of the machine."""


class Gauge:
    def __init__(self, database: Database, server: Served) -> None:
        self._database = database
        self._server = psutil.Process(server.process.pid)
        self._sizes: dict[str, int] = {}
        self._backends = 0
        self._elsewhere = 0.0
        self._cpu = _Cpu()
        self._looked_at = float("-inf")

    def read(self, at: float, done: int, sent: int) -> Reading:
        if at - self._looked_at >= SELDOM:
            self._looked_at = at
            backends = self._database.processes()
            self._backends = sum(memory[0] for memory in map(_memory, backends))
            self._sizes = self._database.sizes()
            self._elsewhere = self._cpu.elsewhere(backends)
        own, resident = _memory(self._server)
        return Reading(
            at=round(at, 2),
            done=done,
            depth=sent - done,
            server=own,
            server_resident=resident,
            backends=self._backends,
            elsewhere=round(self._elsewhere, 3),
            **self._sizes,
        )


class _Cpu:
    """The share of the machine's time that went to processes which are none of ours, since the last time it was asked."""

    def __init__(self) -> None:
        self._last = (0.0, 0.0, 0.0)

    def elsewhere(self, backends: Iterable[psutil.Process]) -> float:
        times = psutil.cpu_times()
        total, idle = sum(times[:8]), times.idle + getattr(times, "iowait", 0.0)
        ours = sum(map(_seconds, [*_family(os.getpid()), *_servers(backends)]))
        before, self._last = self._last, (total, total - idle, ours)
        span, busy, own = (now - then for now, then in zip(self._last, before, strict=True))
        return max(0.0, busy - max(0.0, own)) / span if before[0] and span > 0 else 0.0


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _servers(backends: Iterable[psutil.Process]) -> list[psutil.Process]:
    """The database server that the backends belong to, with its other processes, unless that is a child of ours anyway."""
    for backend in backends:
        with suppress(psutil.NoSuchProcess):
            parent = backend.parent()
            if parent is not None and parent.ppid() != os.getpid():
                return _family(parent.pid)
    return []


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _memory(process: psutil.Process) -> tuple[int, int]:
    """What it has written for itself, and what it has in memory at all: programs, and the buffers of a database, which many share."""
    try:
        resident = int(process.memory_info().rss)
        return _anonymous(process.pid) or int(process.memory_full_info().uss), resident
    except (psutil.NoSuchProcess, FileNotFoundError):
        return 0, 0


def _anonymous(pid: int) -> int:
    """As Linux tells it. Elsewhere there is the unique set, which also moves when a neighbour begins to use the same program."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
    return int(lines.get("RssAnon", "0").split()[0]) * 1024
