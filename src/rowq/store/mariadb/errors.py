"""Translates the error codes of MariaDB, MySQL and their driver into rowq's errors, each with advice."""

from __future__ import annotations

import re

from pymysql import MySQLError
from pymysql.constants import CR, ER

from rowq.errors import RowqError, StoreBusy, StoreError, StoreReadOnly, StoreUnavailable
from rowq.store.retry import TryAgain
from rowq.store.server import errors as meaning
from rowq.store.server.errors import Meaning, raised_as

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

_READ_ONLY = (StoreReadOnly, "{where} may not be written: is it a replica? Give the address of the primary")
_NO_MORE = (StoreBusy, "{where} gives this user no more connections: raise its max_user_connections")

_MEANINGS: dict[int, Meaning] = {
    ER.LOCK_DEADLOCK: meaning.DEADLOCK,
    ER.CHECKREAD: meaning.OVERTAKEN,
    ER.TABLE_DEF_CHANGED: meaning.OVERTAKEN,
    _TABLE_CHANGED: meaning.OVERTAKEN,
    ER.LOCK_TABLE_FULL: (TryAgain, "{where} ran out of memory for locks; nothing was written: try again"),
    ER.DUP_ENTRY: meaning.SAME_KEY,
    ER.LOCK_WAIT_TIMEOUT: meaning.LOCKED,
    ER.QUERY_INTERRUPTED: meaning.SLOW,
    _STATEMENT_TIMEOUT: meaning.SLOW,
    _STATEMENT_TIMEOUT_OF_MYSQL: meaning.SLOW,
    ER.CON_COUNT_ERROR: (StoreBusy, "{where} has no connection left: raise its max_connections, or run fewer processes"),
    ER.TOO_MANY_USER_CONNECTIONS: _NO_MORE,
    ER.USER_LIMIT_REACHED: _NO_MORE,
    ER.RECORD_FILE_FULL: meaning.FULL,
    ER.DISK_FULL: meaning.FULL,
    ER.OUT_OF_RESOURCES: meaning.NO_MEMORY,
    ER.OPTION_PREVENTS_STATEMENT: _READ_ONLY,
    _READ_ONLY_MODE: _READ_ONLY,
    _READ_ONLY_TRANSACTION: _READ_ONLY,
    ER.ACCESS_DENIED_ERROR: (StoreUnavailable, "{where} refuses this user or password"),
    ER.HOST_NOT_PRIVILEGED: (StoreUnavailable, "{where} refuses this host: the user may not come from here"),
    ER.HOST_IS_BLOCKED: (StoreUnavailable, "{where} refuses this host after too many failures: run FLUSH HOSTS there"),
    ER.DBACCESS_DENIED_ERROR: meaning.NO_RIGHTS,
    ER.TABLEACCESS_DENIED_ERROR: meaning.NO_RIGHTS,
    ER.COLUMNACCESS_DENIED_ERROR: meaning.NO_RIGHTS,
    ER.SPECIFIC_ACCESS_DENIED_ERROR: meaning.NO_RIGHTS,
    ER.BAD_DB_ERROR: meaning.NO_DATABASE,
    ER.NO_SUCH_TABLE: meaning.NO_TABLE,
    ER.BAD_FIELD_ERROR: meaning.NO_COLUMN,
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
    if is_lost(error):
        meant = meaning.LOST
    else:
        unknown = meaning.FULL if _NO_SPACE.search(_reason(error)) else (StoreError, "the database refused at {where}")
        meant = _MEANINGS.get(code_of(error) or 0, unknown)
    return raised_as(meant, where, _reason(error))


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
    return raised_as(_MEANINGS.get(code_of(error) or 0, meaning.UNREACHABLE), where, _reason(error))


def may_pass(error: Exception) -> bool:
    """Whether another attempt to connect may succeed."""
    return isinstance(error, OSError) or code_of(error) in _MAY_PASS


def _reason(error: Exception) -> str:
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return f"{code_of(error) or ''} {text}"
