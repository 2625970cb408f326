"""Reads the server's answers through mysqlclient (MySQLdb), for connections that an application brings. rowq's own use PyMySQL."""

from __future__ import annotations

from typing import Any

import MySQLdb
from MySQLdb import _mysql
from MySQLdb.constants import FIELD_TYPE, FLAG
from pymysql.err import OperationalError

from rowq.store.mariadb.driver import Answer, Raw

_TEXT = ((FLAG.BINARY, bytes), (None, str))
"""By the column's character set: the driver sets the flag for bytes only, whatever the collation is."""


def _decimal(text: str) -> int | float:
    return float(text) if "." in text else int(text)  # the sum of integers is a decimal


# Used instead of the connection's own converters, which an application may have changed.
_READERS: dict[int, Any] = {
    **dict.fromkeys((FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.LONG, FIELD_TYPE.INT24, FIELD_TYPE.LONGLONG), int),
    **dict.fromkeys((FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE), float),
    **dict.fromkeys((FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL), _decimal),
    **dict.fromkeys((FIELD_TYPE.VARCHAR, FIELD_TYPE.VAR_STRING, FIELD_TYPE.STRING), _TEXT),
    **dict.fromkeys((FIELD_TYPE.TINY_BLOB, FIELD_TYPE.BLOB, FIELD_TYPE.MEDIUM_BLOB, FIELD_TYPE.LONG_BLOB), _TEXT),
}


def ask(raw: Raw, statements: list[bytes]) -> Answer:
    """Like `rowq.store.mariadb.driver.ask`. Errors are raised as PyMySQL's, which have the same codes."""
    try:
        raw.query(b";".join(statements))
        for _ in statements[1:]:
            _read(raw)
            raw.next_result()
        return _read(raw)
    except MySQLdb.MySQLError as error:
        raise OperationalError(*error.args) from error


def _read(raw: Raw) -> Answer:
    if not raw.field_count():
        return Answer([], raw.affected_rows(), raw.insert_id())
    return Answer([*_mysql.result(raw, 0, _READERS).fetch_row(0)])
