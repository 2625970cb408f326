"""What `rowq doctor` checks on SQLite."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from rowq.store.dialect import Finding

_OLDEST_GOOD = (3, 35, 0)
_WAL_WARNING = 256 << 20
_ROOM_WARNING = 512 << 20


def examine(connection: sqlite3.Connection, path: str, durability: str) -> list[Finding]:
    return [
        _version(),
        _integrity(connection, path),
        _journal(connection),
        _wal(path),
        _room(path),
        _waste(connection, path),
        _durability(durability),
    ]


def _version() -> Finding:
    ok = sqlite3.sqlite_version_info >= _OLDEST_GOOD
    return Finding("SQLite version", ok, sqlite3.sqlite_version, None if ok else "use a Python with SQLite 3.35 or newer")


def _integrity(connection: sqlite3.Connection, path: str) -> Finding:
    result = connection.execute("PRAGMA quick_check(5)").fetchall()
    ok = result == [("ok",)]
    detail = "ok" if ok else "; ".join(row[0] for row in result)
    return Finding(
        "integrity", ok, detail, None if ok else f"stop all programs, copy {path} aside, restore a backup or run sqlite3's .recover"
    )


def _journal(connection: sqlite3.Connection) -> Finding:
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    return Finding("journal mode", mode == "wal", mode, None if mode == "wal" else "open it once with rowq: it sets the write-ahead log")


def _wal(path: str) -> Finding:
    log = Path(path + "-wal")
    size = log.stat().st_size if log.exists() else 0
    ok = size < _WAL_WARNING
    return Finding("write-ahead log", ok, _megabytes(size), None if ok else "a long reader keeps it from shrinking: end long-running reads")


def _room(path: str) -> Finding:
    free = shutil.disk_usage(Path(path).parent).free
    ok = free > _ROOM_WARNING
    return Finding("room on disk", ok, f"{_megabytes(free)} free", None if ok else "free some space before sends are refused")


def _waste(connection: sqlite3.Connection, path: str) -> Finding:
    free = connection.execute("PRAGMA freelist_count").fetchone()[0] * connection.execute("PRAGMA page_size").fetchone()[0]
    size = Path(path).stat().st_size
    ok = free < max(size // 2, _WAL_WARNING)
    advice = None if ok else "free pages are used again by new messages; to give them back to the system run VACUUM while nothing else runs"
    return Finding("file size", ok, f"{_megabytes(size)}, of which free {_megabytes(free)}", advice)


def _durability(durability: str) -> Finding:
    ok = durability != "normal"
    advice = None if ok else "the last sends before a power cut may be lost: use durability=send (default) or full where that matters"
    return Finding("durability", ok, durability, advice)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
