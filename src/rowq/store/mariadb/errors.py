"""Translates the error codes of MariaDB, MySQL and their driver into rowq's errors, each with advice."""

from __future__ import annotations

import re

from pymysql import MySQLError
from pymysql.constants import CR, ER

from rowq.errors import RowqError, SchemaMismatch, StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from rowq.store.retry import ConnectionLost, TryAgain, WouldWait

# Codes that the driver does not name.
_TABLE_CHANGED = 1412
_BINLOG_BY_STATEMENT = 1665
_READ_ONLY_TRANSACTION = 1792
_READ_ONLY_MODE = 1836
_CONNECTION_KILLED = 1927
_STATEMENT_TIMEOUT = 1969
_STATEMENT_TIMEOUT_OF_MYSQL = 3024
_SESSION_KILLED = 3169
_IDLE_FOR_TOO_LONG = 4031

_FULL = (StoreFull, "no room left on the disk of {where}; nothing was written: free some space")
_SLOW = (StoreBusy, "{where} did not finish in time; nothing was written: try again, or raise timeout")
_RIGHTS = (StoreUnavailable, "the user lacks rights that rowq needs at {where}: GRANT them, or let an owner run `rowq migrate`")
_READ_ONLY = (StoreReadOnly, "{where} may not be written: is it a replica? Give the address of the primary")
_NO_MORE = (StoreBusy, "{where} gives this user no more connections: raise its max_user_connections")
_OVERTAKEN = (TryAgain, "another transaction got in the way at {where}; nothing was written: try again")

_MEANINGS: dict[int, tuple[type[RowqError], str]] = {
    ER.LOCK_DEADLOCK: (TryAgain, "two transactions waited for each other at {where}; nothing was written: try again"),
    ER.CHECKREAD: _OVERTAKEN,
    ER.TABLE_DEF_CHANGED: _OVERTAKEN,
    _TABLE_CHANGED: _OVERTAKEN,
    ER.LOCK_TABLE_FULL: (TryAgain, "{where} ran out of memory for locks; nothing was written: try again"),
    ER.DUP_ENTRY: (TryAgain, "another transaction wrote the same key at {where} at the same moment; nothing was written: try again"),
    ER.LOCK_WAIT_TIMEOUT: (WouldWait, "another transaction has locked a row at {where}; nothing was written: look for a long transaction"),
    ER.QUERY_INTERRUPTED: _SLOW,
    _STATEMENT_TIMEOUT: _SLOW,
    _STATEMENT_TIMEOUT_OF_MYSQL: _SLOW,
    ER.CON_COUNT_ERROR: (StoreBusy, "{where} has no connection left: raise its max_connections, or run fewer processes"),
    ER.TOO_MANY_USER_CONNECTIONS: _NO_MORE,
    ER.USER_LIMIT_REACHED: _NO_MORE,
    ER.RECORD_FILE_FULL: _FULL,
    ER.DISK_FULL: _FULL,
    ER.OUT_OF_RESOURCES: (StoreUnavailable, "{where} is out of memory"),
    ER.OPTION_PREVENTS_STATEMENT: _READ_ONLY,
    _READ_ONLY_MODE: _READ_ONLY,
    _READ_ONLY_TRANSACTION: _READ_ONLY,
    ER.ACCESS_DENIED_ERROR: (StoreUnavailable, "{where} refuses this user or password"),
    ER.HOST_NOT_PRIVILEGED: (StoreUnavailable, "{where} refuses this host: the user may not come from here"),
    ER.HOST_IS_BLOCKED: (StoreUnavailable, "{where} refuses this host after too many failures: run FLUSH HOSTS there"),
    ER.DBACCESS_DENIED_ERROR: _RIGHTS,
    ER.TABLEACCESS_DENIED_ERROR: _RIGHTS,
    ER.COLUMNACCESS_DENIED_ERROR: _RIGHTS,
    ER.SPECIFIC_ACCESS_DENIED_ERROR: _RIGHTS,
    ER.BAD_DB_ERROR: (StoreUnavailable, "the database does not exist at {where}: create it first"),
    ER.NO_SUCH_TABLE: (SchemaMismatch, "a table of rowq is missing at {where}: run `rowq migrate`"),
    ER.BAD_FIELD_ERROR: (SchemaMismatch, "a column of rowq is missing at {where}: run `rowq migrate`"),
    _BINLOG_BY_STATEMENT: (StoreUnavailable, "{where} logs statements, which replicas cannot follow: set binlog_format = ROW"),
}

NEVER_SENT = CR.CR_SERVER_GONE_ERROR
"""The driver's code for a statement that was not sent completely: the server has not run it."""
_GONE = {
    *(NEVER_SENT, CR.CR_SERVER_LOST, CR.CR_SERVER_LOST_EXTENDED, ER.SERVER_SHUTDOWN, ER.NORMAL_SHUTDOWN),
    *(_CONNECTION_KILLED, _SESSION_KILLED, _IDLE_FOR_TOO_LONG),
    0,  # the driver's code for a connection that was closed on this side
}
_NO_SPACE = re.compile(r"\b(?:error|errno:?|errcode:?) 28\b|no space left", re.IGNORECASE)
"""How several other codes report a full disk."""
_MAY_PASS = {*_GONE, CR.CR_CONNECTION_ERROR, CR.CR_CONN_HOST_ERROR, ER.CON_COUNT_ERROR, ER.TOO_MANY_USER_CONNECTIONS, ER.USER_LIMIT_REACHED}


def code_of(error: BaseException | None) -> int | None:
    """None for errors that are not the driver's or have no code."""
    if isinstance(error, MySQLError) and error.args and isinstance(error.args[0], int):
        return error.args[0]
    return None


def translate(error: MySQLError, where: str) -> RowqError:
    kind, text = _MEANINGS.get(code_of(error) or 0, (StoreError, "the database refused at {where}"))
    if kind is StoreError and _NO_SPACE.search(_reason(error)):
        kind, text = _FULL
    if is_lost(error):
        kind, text = ConnectionLost, "the connection to {where} broke; nothing was written"
    return kind(f"{text.format(where=where)} [{_reason(error)}]")


def is_lost(error: BaseException | None) -> bool:
    """Whether the connection is lost."""
    return code_of(error) in _GONE


def is_elsewhere(error: MySQLError) -> bool:
    """Whether this connection's database does not contain rowq's tables."""
    return code_of(error) in (ER.NO_SUCH_TABLE, ER.UNKNOWN_TABLE, ER.NO_DB_ERROR, ER.DBACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR)


def is_forbidden(error: MySQLError) -> bool:
    """Whether this user lacks an optional right."""
    return code_of(error) in (ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR)


def refusal(error: Exception, where: str) -> RowqError:
    """The error for a failed attempt to connect."""
    usual = (StoreUnavailable, "cannot connect to {where}: is it running, and are host and port right?")
    kind, text = _MEANINGS.get(code_of(error) or 0, usual)
    return kind(f"{text.format(where=where)} [{_reason(error)}]")


def may_pass(error: Exception) -> bool:
    """Whether another attempt to connect may succeed."""
    return isinstance(error, OSError) or code_of(error) in _MAY_PASS


def _reason(error: Exception) -> str:
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return " ".join(f"{code_of(error) or ''} {text}".split())[:300]
