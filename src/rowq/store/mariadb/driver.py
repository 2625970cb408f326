"""What rowq asks of PyMySQL beyond its public API, all in this module: to connect over a socket of ours, and to read answers from packets.

PyMySQL's own reader makes several calls for each value and describes each column to cursors; decision 41 has the figures. These names
are private, so the version in pyproject.toml is bounded, and tests/store/test_mariadb_driver.py fails if a release no longer has them:
`_execute_command` and `_read_packet` (reading), `_secure` and `_read_timeout` (connecting).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pymysql.constants import COMMAND, FIELD_TYPE

from rowq.store.dialect import Row

Raw = Any
"""A pymysql.Connection; its type stubs lack the attributes used here."""
Reader = Callable[[bytes], Any] | None

_BINARY = 63
_NUMBERS = (FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.LONG, FIELD_TYPE.INT24, FIELD_TYPE.LONGLONG)
_FRACTIONS = (FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE, FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL)
_OK, _NULL, _TWO_BYTES, _THREE_BYTES, _END = 0x00, 0xFB, 0xFC, 0xFD, 0xFE
_END_BYTES = 9
"""A longer packet that begins like an end is a row with a very long first value."""


class Answer(NamedTuple):
    rows: list[Row]
    matched: int = 0
    """How many rows were written."""
    number: int = 0
    """The last AUTO_INCREMENT value, or the value that LAST_INSERT_ID was set to."""


Asking = Callable[[Raw, list[bytes]], Answer]


def connect(raw: Raw, opened: socket.socket) -> None:
    """Connects over a socket of ours. The driver's `read_timeout` is for the handshake only: an answer may take any time."""
    raw._secure = opened.family == socket.AF_UNIX  # a local socket may carry passwords in plain text
    raw.connect(opened)
    raw._read_timeout = None


def ask(raw: Raw, statements: list[bytes]) -> Answer:
    """Sends all statements at once and returns the answer to the last. After a failed statement the server runs no more of them."""
    raw._execute_command(COMMAND.COM_QUERY, b";".join(statements))
    for _ in statements[1:]:
        _read(raw)
    return _read(raw)


def stream(raw: Raw, statement: bytes) -> Iterator[Row]:
    """Yields the rows of a SELECT as they arrive. Nothing else can be sent before the last row was read. The driver's SSCursor would read
    the remaining rows when a caller stops early; here the connection is closed instead."""
    raw._execute_command(COMMAND.COM_QUERY, statement)
    yield from _rows(raw, _packet(raw))


def _read(raw: Raw) -> Answer:
    data = _packet(raw)
    if data[0] == _OK:
        matched, at = _number(data, 1)
        return Answer([], matched, _number(data, at)[0])
    return Answer([*_rows(raw, data)])


def _rows(raw: Raw, head: bytes) -> Iterator[Row]:
    readers = [_reader(_packet(raw)) for _ in range(_number(head, 0)[0])]
    _packet(raw)  # the end of the columns
    while True:
        data = _packet(raw)
        if data[0] == _END and len(data) < _END_BYTES:
            return
        yield _row(data, readers)


def _reader(column: bytes) -> Reader:
    """Chosen by the fixed-size end of a column definition: character set, length, type, flags, decimals."""
    kind, decimals = column[-6], column[-3]
    if kind in _NUMBERS or (kind == FIELD_TYPE.NEWDECIMAL and decimals == 0):  # the sum of integers is a decimal
        return int
    if kind in _FRACTIONS:
        return float
    return None if int.from_bytes(column[-12:-10], "little") == _BINARY else bytes.decode


def _row(data: bytes, readers: list[Reader]) -> Row:
    values: list[Any] = []
    at = 0
    for read in readers:
        size = data[at]
        at += 1
        if size >= _NULL:
            if size == _NULL:
                values.append(None)
                continue
            size, at = _number(data, at - 1)
        end = at + size
        value = data[at:end]
        values.append(value if read is None else read(value))
        at = end
    return tuple(values)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer, and where the next value begins."""
    size = data[at]
    if size < _NULL:
        return size, at + 1
    end = at + {_TWO_BYTES: 3, _THREE_BYTES: 4, _END: 9}[size]
    return int.from_bytes(data[at + 1 : end], "little"), end


def _packet(raw: Raw) -> bytes:
    """The driver raises the server's errors here."""
    data: bytes = raw._read_packet().get_all_data()
    return data
