"""Encodes values in PostgreSQL's binary format. Every integer is a BIGINT, so that a query is prepared once and not for each integer
size."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Any

from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import StrBinaryDumper

_BOOL, _BYTEA, _INT8, _TEXT, _FLOAT8, _UNKNOWN = 16, 17, 20, 25, 701, 0
_ARRAYS = {_INT8: 1016, _TEXT: 1009, _BYTEA: 1001, _FLOAT8: 1022}
_ELEMENTS = {"BIGINT": _INT8, "TEXT": _TEXT, "BYTEA": _BYTEA, "DOUBLE PRECISION": _FLOAT8}

_pack_number = struct.Struct(">q").pack
_pack_float = struct.Struct(">d").pack
_pack_size = struct.Struct(">i").pack
_pack_head = struct.Struct(">iiiii").pack
_NULL = _pack_size(-1)
_AT_ONCE = 256

Wired = tuple[int, bytes | bytearray | None]
"""The type of a value, and its bytes."""


class Numbers(list[int]):
    """A list of integers without NULLs."""


class Column(list[Any]):
    """Values of one column, possibly with NULLs; `element` is their type."""

    def __init__(self, values: Sequence[Any], element: int) -> None:
        super().__init__(values)
        self.element = element


def column_of(sql_type: str, values: Sequence[Any]) -> list[Any]:
    element = _ELEMENTS[sql_type]
    return Numbers(values) if element == _INT8 and None not in values else Column(values, element)


def wired(value: Any) -> Wired:
    return _WIRED[type(value)](value)


def _of_list(values: list[Any]) -> Wired:
    """A list parameter: without NULLs, and of the type of its first element."""
    if values and type(values[0]) is int:
        return _of_numbers(values)
    return _of_column(Column(values, _TEXT))


def _of_numbers(values: list[int]) -> Wired:
    """One dimension, no NULLs, the element type, the count, lower bound 1; then each element with its size, many packed at once."""
    pieces = [_pack_head(1, 0, _INT8, len(values), 1)]
    for start in range(0, len(values), _AT_ONCE):
        piece = values[start : start + _AT_ONCE]
        pieces.append(_sized(len(piece)).pack(*chain.from_iterable(zip(repeat(8), piece, strict=False))))
    return _ARRAYS[_INT8], b"".join(pieces)


@lru_cache(maxsize=_AT_ONCE)
def _sized(count: int) -> struct.Struct:
    """Python keeps 64 bytes for each number of a Struct: one for every possible list length would take a hundred megabytes."""
    return struct.Struct(">" + "iq" * count)


def _of_column(column: Column) -> Wired:
    if not column:
        return _ARRAYS[column.element], struct.pack(">iii", 0, 0, column.element)
    pieces: list[bytes | bytearray] = [_pack_head(1, 1, column.element, len(column), 1)]
    for value in column:
        data = wired(value)[1]
        if data is None:
            pieces.append(_NULL)
        else:
            pieces += (_pack_size(len(data)), data)
    return _ARRAYS[column.element], b"".join(pieces)


_WIRED: dict[type, Callable[[Any], Wired]] = {
    type(None): lambda value: (_UNKNOWN, None),
    bool: lambda value: (_BOOL, b"\1" if value else b"\0"),
    int: lambda value: (_INT8, _pack_number(value)),
    float: lambda value: (_FLOAT8, _pack_float(value)),
    str: lambda value: (_TEXT, value.encode()),
    bytes: lambda value: (_BYTEA, value),
    bytearray: lambda value: (_BYTEA, bytes(value)),
    list: _of_list,
    Numbers: _of_numbers,
    Column: _of_column,
}


class _WiredDumper(Dumper):
    """For connections that are used through the driver's cursors."""

    format = Format.BINARY

    def dump(self, obj: Any) -> bytes | bytearray | None:
        return wired(obj)[1]

    def get_key(self, obj: Any, format: Any) -> Any:  # noqa: ARG002
        return (type(obj), wired(obj)[0])

    def upgrade(self, obj: Any, format: Any) -> Dumper:  # noqa: ARG002
        dumper = type(self)(type(obj))
        dumper.oid = wired(obj)[0]
        return dumper


def adapt(adapters: AdaptersMap) -> None:
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(str, StrBinaryDumper)
    adapters.register_dumper(Numbers, _WiredDumper)
    adapters.register_dumper(Column, _WiredDumper)
