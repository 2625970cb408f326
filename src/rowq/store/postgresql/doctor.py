"""What `rowq doctor` checks on PostgreSQL: the server, its settings and our tables. Other sessions are checked in activity.py."""

from __future__ import annotations

import msgspec

from rowq.store.dialect import Finding, Session
from rowq.store.postgresql import peq
from rowq.store.postgresql.activity import Open, locks, prepared_transactions, replication_slots, snapshots, wake_ups
from rowq.store.server.doctor import clock, tables

_OLDEST_GOOD, _NEWEST_KNOWN = 14, 18
_FULL = 0.9
"""Of the maximum number of connections."""
_SHORTEST_STATEMENT_MS = 10_000
_SHORTEST_SESSION_MS = 60_000
_MANY_DEAD = {"rowq_messages": 2_000_000, "rowq_audit": 2_000_000, "rowq_history": 2_000_000}
_MANY_DEAD_ELSEWHERE = 200_000
"""More than a table that is vacuumed every few seconds collects at full speed."""
_VACUUMED_LATELY = 120.0
_LARGE = 1 << 30
_BYTES_A_ROW = 10_000
_NARROW = ("rowq_ready", "rowq_scheduled", "rowq_leased", "rowq_blocked", "rowq_expiring", "rowq_waiting_keys", "rowq_group_heads")
_SETTINGS = (
    *("server_version", "server_version_num", "server_encoding", "default_transaction_read_only", "default_transaction_isolation"),
    *("fsync", "full_page_writes", "synchronous_commit", "autovacuum", "track_counts"),
    *("max_connections", "superuser_reserved_connections", "reserved_connections"),
    *("statement_timeout", "transaction_timeout", "idle_session_timeout"),
)


class _Table(msgspec.Struct, frozen=True):
    name: str
    is_logged: bool
    live: int
    dead: int
    vacuumed_ago: float | None
    size: int
    has_no_autovacuum: bool
    may_be_vacuumed: bool


class _Server(msgspec.Struct, frozen=True):
    """What several checks need."""

    settings: dict[str, str]
    is_standby: bool
    sees_all: bool
    user: str
    notification_queue: float
    tables: list[_Table]

    def number(self, name: str) -> int:
        """0 if this version does not have the setting."""
        return int(self.settings.get(name, 0))


def examine(session: Session, durability: str, *, is_pooled: bool, open: Open) -> list[Finding]:
    """`open`: opens further connections, to test whether a notification arrives."""
    server = _look(session)
    return [
        _version(server),
        _writable(server),
        _encoding(server),
        tables(session),
        peq.examine(session),
        _rights(session, server),
        _durability(durability),
        _crash_safety(server, durability),
        _isolation(server),
        _time_limits(server),
        _connections(session, server),
        wake_ups(server.notification_queue, is_pooled=is_pooled, is_standby=server.is_standby, open=open),
        snapshots(session, server.user, sees_all=server.sees_all),
        prepared_transactions(session),
        replication_slots(session),
        locks(session),
        _vacuum(server),
        _dead_rows(server),
        _size(server),
        clock(session),
    ]


def _look(session: Session) -> _Server:
    is_standby, sees_all, user, notification_queue = session.rows("read_standing")[0]
    settings: dict[str, str] = dict(session.rows("read_server_settings", names=list(_SETTINGS)))
    known = [_Table(*row) for row in session.rows("list_tables")]
    return _Server(settings, is_standby, sees_all, user, notification_queue, known)


def _version(server: _Server) -> Finding:
    number, text = int(server.settings["server_version_num"]) // 10_000, server.settings["server_version"]
    if number < _OLDEST_GOOD:
        return Finding("PostgreSQL version", False, text, f"rowq needs PostgreSQL {_OLDEST_GOOD} or newer")
    news = f", newer than the last version that this release was tested with, {_NEWEST_KNOWN}" if number > _NEWEST_KNOWN else ""
    return Finding("PostgreSQL version", True, f"{text}{news}")


def _writable(server: _Server) -> Finding:
    if server.is_standby:
        return Finding("writable", False, "a standby", "give the address of the primary, or promote this one")
    if server.settings["default_transaction_read_only"] == "on":
        advice = f"set default_transaction_read_only = off for {server.user}, its database or the server"
        return Finding("writable", False, "transactions are read-only", advice)
    return Finding("writable", True, "yes")


def _encoding(server: _Server) -> Finding:
    encoding = server.settings["server_encoding"]
    ok = encoding == "UTF8"
    advice = None if ok else "keys, groups and errors with characters that it lacks are refused: use a database with ENCODING 'UTF8'"
    return Finding("encoding", ok, encoding, advice)


def _rights(session: Session, server: _Server) -> Finding:
    missing = [f"{right} on {name}" for name, right in session.rows("list_missing_rights")]
    if missing:
        return Finding("rights", False, f"{server.user} lacks {_some(missing)}", f"let the owner of the tables GRANT them to {server.user}")
    return Finding("rights", True, f"{server.user} may read and write")


def _durability(durability: str) -> Finding:
    ok = durability != "normal"
    advice = None if ok else "the last sends before a crash of the server may be lost: use durability=full (default) where that matters"
    return Finding("durability", ok, durability, advice)


_UNLOGGED = ("rowq_staged",)
"""Staged messages may be lost in a crash: publishing counts them and fails if some are missing."""


def _crash_safety(server: _Server, durability: str) -> Finding:
    """Risks that rowq's durability setting cannot remove."""
    risks = [name for name in ("fsync", "full_page_writes") if server.settings[name] == "off"]
    if server.settings["synchronous_commit"] == "off" and durability != "normal":
        risks.append("synchronous_commit")
    unlogged = [table.name for table in server.tables if not table.is_logged and table.name not in _UNLOGGED]
    settings = ", ".join(f"{name} {server.settings[name]}" for name in ("fsync", "full_page_writes", "synchronous_commit"))
    detail = f"{settings}; unlogged: {_some(unlogged)}" if unlogged else settings
    if "fsync" in risks or "full_page_writes" in risks:
        advice = f"a crash of the system can destroy the database: set {' and '.join(risks)} to on"
    elif risks:
        advice = f"sends are answered before they are on disk: set synchronous_commit = on for {server.user}, its database or the server"
    else:
        advice = "a crash of the server empties these tables: ALTER TABLE … SET LOGGED"
    is_safe = not risks and not unlogged
    return Finding("crash safety", is_safe, detail, None if is_safe else advice)


def _isolation(server: _Server) -> Finding:
    level = server.settings["default_transaction_isolation"]
    ok = level == "read committed"
    advice = None if ok else f"calls conflict with each other and are repeated: set it to read committed for {server.user}"
    return Finding("isolation", ok, level, advice)


def _time_limits(server: _Server) -> Finding:
    shortest = {"statement_timeout": _SHORTEST_STATEMENT_MS, "transaction_timeout": _SHORTEST_STATEMENT_MS}
    shortest |= {"idle_session_timeout": _SHORTEST_SESSION_MS}
    short = [name for name, least in shortest.items() if 0 < server.number(name) < least]
    if not short:
        return Finding("time limits", True, "none that cuts in")
    detail = ", ".join(f"{name} {server.number(name)} ms" for name in short)
    return Finding("time limits", False, detail, f"it interrupts maintenance and wake-ups: raise it, or set it to 0, for {server.user}")


def _connections(session: Session, server: _Server) -> Finding:
    used, of_database, of_user, most_of_database, most_of_user = session.rows("count_connections")[0]
    most = server.number("max_connections") - server.number("superuser_reserved_connections") - server.number("reserved_connections")
    limits = [(used, most, "of the server"), (of_database, most_of_database, "of the database"), (of_user, most_of_user, "of the user")]
    used, most, whose = max([limit for limit in limits if limit[1] > 0], key=lambda limit: limit[0] / limit[1])
    ok = used < most * _FULL
    advice = None if ok else "soon nothing can connect: raise the limit, close idle connections, or put a pooler in front"
    return Finding("connections", ok, f"{used} of {most} {whose} in use", advice)


def _vacuum(server: _Server) -> Finding:
    off = [name for name in ("autovacuum", "track_counts") if server.settings[name] == "off"]
    off += [f"autovacuum of {table.name}" for table in server.tables if table.has_no_autovacuum]
    if off:
        return Finding("vacuum", False, f"off: {_some(off)}", "deleted rows pile up and make every receive slower: switch it on")
    forbidden = [table.name for table in server.tables if not table.may_be_vacuumed]
    if forbidden:
        advice = (
            f"maintenance cannot vacuum: make {server.user} a member of the owner, or (from PostgreSQL 17 on) GRANT MAINTAIN on the tables"
        )
        return Finding("vacuum", False, f"{server.user} may not vacuum {_some(forbidden)}", advice)
    return Finding("vacuum", True, f"autovacuum is on, and {server.user} may vacuum")


def _dead_rows(server: _Server) -> Finding:
    heaps = [table for table in server.tables if table.dead > max(table.live, _MANY_DEAD.get(table.name, _MANY_DEAD_ELSEWHERE))]
    if not heaps:
        return Finding("dead rows", True, f"{sum(table.dead for table in server.tables):,}")
    detail = "; ".join(f"{table.name}: {table.dead:,} beside {table.live:,} live ones, {_vacuumed(table)}" for table in heaps)
    is_in_vain = all(table.vacuumed_ago is not None and table.vacuumed_ago < _VACUUMED_LATELY for table in heaps)
    advice = (
        "vacuum runs but may not remove them: a snapshot still sees them, or did a moment ago"
        if is_in_vain
        else "these tables are not vacuumed: run a process with maintenance, or VACUUM them"
    )
    return Finding("dead rows", False, detail, advice)


def _vacuumed(table: _Table) -> str:
    return "never vacuumed" if table.vacuumed_ago is None else f"vacuumed {table.vacuumed_ago:,.0f} s ago"


def _size(server: _Server) -> Finding:
    hollow = [
        table for table in server.tables if table.name in _NARROW and table.size >= _LARGE and table.size > (table.live + 1) * _BYTES_A_ROW
    ]
    if hollow:
        detail = "; ".join(f"{table.name}: {_megabytes(table.size)} for {table.live:,} rows" for table in hollow)
        return Finding("size", False, detail, "new messages reuse this space; VACUUM FULL, while nothing else runs, frees it on disk")
    return Finding("size", True, f"{_megabytes(sum(table.size for table in server.tables))}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
