"""What `rowq doctor` checks on MariaDB and MySQL: the server, its settings, our tables, and other sessions that block us."""

from __future__ import annotations

import re

import msgspec
import pymysql

from rowq.model.queue import Settings, resolve
from rowq.store.dialect import Finding, Session
from rowq.store.mariadb.errors import is_forbidden
from rowq.store.policy import read_settings
from rowq.store.server.doctor import clock, tables

_OLDEST_GOOD = {"MariaDB": (10, 6), "MySQL": (8, 0)}
"""The first versions with SKIP LOCKED."""
_RELEASE = re.compile(r"(\d+)\.(\d+)")
_FULL = 0.9
"""Of the maximum number of connections."""
_LONG = 60
"""Seconds for which another session's transaction may be open."""
_LONG_LOCKED = 10
_MANY_VERSIONS = 500_000
_WITH_A_ROW = 256 << 10
"""Bytes that may be sent together with a payload."""
_SETTINGS = (
    *("innodb_flush_log_at_trx_commit", "innodb_doublewrite", "log_bin", "sync_binlog", "binlog_format"),
    *("read_only", "super_read_only", "innodb_read_only", "tx_isolation", "transaction_isolation", "max_allowed_packet", "max_connections"),
)
_STATUS = ("Innodb_history_list_length", "Threads_connected")
_HIDDEN = "transactions of others are hidden: GRANT PROCESS ON *.* to this user shows them"


class _Server(msgspec.Struct, frozen=True):
    """What several checks need."""

    release: str
    settings: dict[str, str]
    status: dict[str, str]
    transactions: list[_Transaction] | None
    """The oldest first; None if this user may not see them."""

    def has(self, name: str, *values: str) -> bool:
        return self.settings.get(name, "").upper() in values


class _Transaction(msgspec.Struct, frozen=True):
    id: int
    user: str | None
    host: str | None
    database: str | None
    query: str | None
    locked: int
    seconds: int

    def __str__(self) -> str:
        busy = f"runs {' '.join(self.query.split())!r}" if self.query else "is idle"
        return f"connection {self.id} of {self.user}@{self.host}, in its transaction for {self.seconds} s, {busy}"


def examine(session: Session) -> list[Finding]:
    server = _look(session)
    return [
        _version(server),
        _writable(server),
        tables(session),
        _durability(server),
        _crash_safety(server),
        _binary_log(server),
        _isolation(server),
        _packets(session, server),
        _connections(server),
        _oldest_snapshot(server),
        _locks(server),
        _deleted_rows(session, server),
        clock(session),
    ]


def refused_release(release: str) -> str | None:
    """The complaint about a server that is too old; None if it is supported."""
    product, oldest = _product(release), _OLDEST_GOOD[_product(release)]
    match = _RELEASE.search(release)
    if match is None or (int(match[1]), int(match[2])) >= oldest:
        return None
    return f"rowq needs {product} {oldest[0]}.{oldest[1]} or newer, and this is {release}"


def _product(release: str) -> str:
    return "MariaDB" if "mariadb" in release.lower() else "MySQL"


def _look(session: Session) -> _Server:
    try:
        transactions = [_Transaction(*row) for row in session.rows("list_transactions")]
    except pymysql.MySQLError as error:
        if not is_forbidden(error):
            raise
        transactions = None
    return _Server(
        session.rows("read_release")[0][0],
        dict(session.rows("read_server_settings", names=list(_SETTINGS))),
        dict(session.rows("read_server_status", names=list(_STATUS))),
        transactions,
    )


def _version(server: _Server) -> Finding:
    advice = refused_release(server.release)
    return Finding(f"{_product(server.release)} version", advice is None, server.release, advice)


def _writable(server: _Server) -> Finding:
    closed = [name for name in ("read_only", "super_read_only", "innodb_read_only") if server.has(name, "ON", "1")]
    if closed:
        return Finding("writable", False, f"{', '.join(closed)} is on", "give the address of the primary, or switch it off")
    return Finding("writable", True, "yes")


def _durability(server: _Server) -> Finding:
    value = server.settings.get("innodb_flush_log_at_trx_commit", "1")
    ok = value in ("1", "3")
    advice = None if ok else "the last second before a power cut may be lost, sends and all: set it to 1 where that matters"
    return Finding("durability", ok, f"innodb_flush_log_at_trx_commit = {value}", advice)


def _crash_safety(server: _Server) -> Finding:
    ok = not server.has("innodb_doublewrite", "OFF", "0", "DETECT_ONLY")
    advice = None if ok else "a power cut in the middle of a page destroys it: switch it on, unless the file system writes pages as a whole"
    return Finding("crash safety", ok, f"innodb_doublewrite {server.settings.get('innodb_doublewrite', '')}".strip(), advice)


def _binary_log(server: _Server) -> Finding:
    if not server.has("log_bin", "ON", "1"):
        return Finding("binary log", True, "off")
    kind, synced = server.settings.get("binlog_format", "ROW"), server.settings.get("sync_binlog", "1")
    detail = f"binlog_format {kind}, sync_binlog = {synced}"
    if kind.upper() == "STATEMENT":
        return Finding("binary log", False, detail, "statements of READ COMMITTED are refused: set binlog_format = ROW")
    advice = None if synced == "1" else "after a power cut replicas, or a restore, may lack the last messages: set sync_binlog = 1"
    return Finding("binary log", synced == "1", detail, advice)


def _isolation(server: _Server) -> Finding:
    """rowq sets its level on every connection; the server's default applies to an application's own transactions."""
    level = server.settings.get("transaction_isolation") or server.settings.get("tx_isolation", "")
    ok = level.upper() != "SERIALIZABLE"
    advice = None
    if not ok:
        advice = "an application that uses within() locks all that it reads: set READ COMMITTED on its connections"
    elif level.upper() == "REPEATABLE-READ":
        advice = "an application that uses within() locks fewer rows of others at READ COMMITTED"
    return Finding("isolation", ok, f"{level} for applications", advice)


def _packets(session: Session, server: _Server) -> Finding:
    """Quoting at most doubles a payload."""
    stored = [Settings(), *(read_settings(row[1]) for row in session.rows("read_all_settings"))]
    largest = max(resolve(settings).max_payload_bytes for settings in stored)
    most = int(server.settings["max_allowed_packet"])
    ok = most >= 2 * largest + _WITH_A_ROW
    advice = None if ok else f"a payload of {largest:,} bytes may be refused: raise max_allowed_packet, or lower max_payload_bytes"
    return Finding("packet size", ok, f"max_allowed_packet = {most:,}", advice)


def _connections(server: _Server) -> Finding:
    used, most = int(server.status["Threads_connected"]), int(server.settings["max_connections"])
    ok = used < most * _FULL
    advice = None if ok else "soon nothing can connect: raise max_connections, or close idle connections"
    return Finding("connections", ok, f"{used} of {most} in use", advice)


def _oldest_snapshot(server: _Server) -> Finding:
    if server.transactions is None:
        return Finding("oldest snapshot", True, "not visible to this user", _HIDDEN)
    oldest = server.transactions[0] if server.transactions else None
    if oldest is not None and oldest.seconds >= _LONG:
        advice = f"rows deleted since then cannot be removed: let it end, or KILL {oldest.id}"
        return Finding("oldest snapshot", False, str(oldest), advice)
    return Finding("oldest snapshot", True, "none is held" if oldest is None else f"{oldest.seconds} s old")


def _locks(server: _Server) -> Finding:
    if server.transactions is None:
        return Finding("locks", True, "not visible to this user", _HIDDEN)
    held = [one for one in server.transactions if one.locked and one.seconds >= _LONG_LOCKED]
    if not held:
        return Finding("locks", True, "none is held for long")
    return Finding("locks", False, f"{held[0]}, with {held[0].locked} rows locked", f"let it end, or KILL {held[0].id}")


def _deleted_rows(session: Session, server: _Server) -> Finding:
    """Deleted rows that are not purged yet, because a snapshot may still see them."""
    length = server.status.get("Innodb_history_list_length")
    try:
        count = int(length if length is not None else session.rows("read_history_length")[0][0])
    except pymysql.MySQLError as error:
        if not is_forbidden(error):
            raise
        return Finding("deleted rows", True, "not visible to this user", _HIDDEN)
    ok = count < _MANY_VERSIONS
    advice = None if ok else "every receive walks over them: end the oldest transaction, or raise innodb_purge_threads"
    return Finding("deleted rows", ok, f"{count:,} transactions to clear away", advice)
