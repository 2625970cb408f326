"""Translates SQLite's error codes into rowq's errors, each with advice."""

from __future__ import annotations

import sqlite3

from rowq.errors import (
    RowqError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

_MEANINGS: dict[int, tuple[type[RowqError], str]] = {
    sqlite3.SQLITE_BUSY: (StoreBusy, "{path} is locked by another connection; nothing was written: try again"),
    sqlite3.SQLITE_LOCKED: (StoreBusy, "{path} is locked by this process; nothing was written: try again"),
    sqlite3.SQLITE_READONLY: (StoreReadOnly, "{path} may not be written: check the permissions of the file and of its folder"),
    sqlite3.SQLITE_PERM: (StoreReadOnly, "{path} may not be opened: check the permissions of the file and of its folder"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "{path} is damaged: stop, copy the file aside, and restore a backup or run sqlite3's .recover"),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "{path} is not a SQLite database: is the path right?"),
    sqlite3.SQLITE_FULL: (StoreFull, "no room left on the disk of {path}; nothing was written: free some space"),
    sqlite3.SQLITE_CANTOPEN: (StoreUnavailable, "{path} cannot be opened: check the path, and the permissions of its folder"),
    sqlite3.SQLITE_IOERR: (StoreUnavailable, "the disk of {path} does not answer: look at the system's log"),
}


def is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_disk_error(error: sqlite3.Error) -> bool:
    return _code(error) == sqlite3.SQLITE_IOERR


def translate(error: sqlite3.Error, path: str) -> RowqError:
    kind, text = _MEANINGS.get(_code(error), (StoreError, "SQLite refused ({path})"))
    return kind(f"{text.format(path=path)} [{error}]")


def _code(error: sqlite3.Error) -> int:
    """The primary code: the low byte. Errors of the Python module itself carry none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
