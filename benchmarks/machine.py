"""What a reader needs to know of the machine to place the figures: its kind, never its name."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

_PEERS = ("litequeue", "persist-queue", "huey", "procrastinate", "pgqueuer")
_PAGE = 4096
_SYNCS = 200


def facts(folder: Path) -> dict[str, str]:
    return {
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "SQLite": sqlite3.sqlite_version,
        "file system": file_system(folder),
        "fsync of 4 KiB": f"{sync_seconds(folder) * 1e6:.0f} µs",
        **{name: found for name in _PEERS if (found := _version(name))},
    }


def file_system(folder: Path) -> str:
    """The kind of file system below a folder, as far as the system tells."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "unknown"
    above = {str(path) for path in (folder.absolute(), *folder.absolute().parents)}
    _, kind = max((len(mount[1]), mount[2]) for mount in mounts if mount[1] in above)
    return kind


def sync_seconds(folder: Path) -> float:
    """What a durable commit cannot be faster than."""
    file = folder / "sync"
    times = []
    with file.open("wb", buffering=0) as target:
        for _ in range(_SYNCS):
            target.write(b"\0" * _PAGE)
            started = time.perf_counter()
            os.fsync(target.fileno())
            times.append(time.perf_counter() - started)
    file.unlink()
    return median(times)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
