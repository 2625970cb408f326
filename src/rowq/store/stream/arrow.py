"""The tables as Arrow: their schemas, and the conversion from what a database returns: column by column, never row by row.

Times are timestamps in UTC; a time beyond the calendar is NULL. `payload` holds the bytes that were sent, and
`payload_text` the same as text if it is JSON.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from rowq.model.draft import PREPARED_COLUMNS, Prepared
from rowq.model.duration import LAST_MS
from rowq.store.dialect import Dialect, Session, Snapshot

T = TypeVar("T")

TEXT, NUMBER, BYTES, TIME = pa.string(), pa.int64(), pa.binary(), pa.timestamp("us", tz="UTC")

_NUMBERS = ("seq", "line", "priority", "attempts", "attempt", "ttl_ms", "max_attempts", "redeliveries", "_batch", "_place")
_TIMES = ("sent_at", "due_at", "expires_at", "deadline", "lease_until", "leased_at", "died_at", "finished_at", "at")
_TYPES: dict[str, pa.DataType] = {**dict.fromkeys(_NUMBERS, NUMBER), **dict.fromkeys(_TIMES, TIME), "payload": BYTES}
"""The types of the columns that are not text."""
_MESSAGE = (
    *("id", "queue", "state", "seq", "payload", "payload_text", "format", "headers", "priority", "key", "group", "attempts", "error"),
    *("sent_at", "due_at", "expires_at", "deadline", "lease_until", "leased_at", "consumer", "ttl_ms", "max_attempts", "backoff"),
    *("keys_if_undelivered", "reason", "died_at", "redeliveries"),
)
_HISTORY = (
    *("line", "id", "seq", "queue", "outcome", "sent_at", "leased_at", "finished_at", "attempts", "consumer", "error", "key", "group"),
    *("priority", "payload", "payload_text", "format", "headers"),
)
_AUDIT = ("line", "at", "queue", "seq", "event", "attempt", "actor", "detail")


def _schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, _TYPES.get(name, TEXT)) for name in names])


SCHEMAS: dict[str, pa.Schema] = {
    "messages": _schema((*_MESSAGE, "outcome", "finished_at")),
    "dead": _schema(_MESSAGE),
    "history": _schema(_HISTORY),
    "audit": _schema(_AUDIT),
}
PLACE_COLUMNS = _schema(("_stream", "_batch", "_place"))
"""A message's place in a batch of a stream."""

_BODY = (
    *("seq", "queue", "id", "sent_at", "format", "payload", "headers", "key", "group", "priority", "ttl_ms", "deadline"),
    *("max_attempts", "backoff", "keys_if_undelivered", "attempts", "error"),
)
_LEASE = ("expires_at", "lease_until", "leased_at", "consumer")
_DEATH = ("reason", "died_at", "redeliveries")
GIVEN: dict[str, tuple[str, ...]] = {
    "table_ready": (*_BODY, "expires_at"),
    "table_moved": (*_BODY, "expires_at"),
    "table_scheduled": (*_BODY, "expires_at", "due_at"),
    "table_blocked": (*_BODY, "expires_at", "due_at"),
    "table_leased": (*_BODY, *_LEASE, *_DEATH),
    "table_dead": (*_BODY, "due_at", *_DEATH),
    "table_finished": (*_BODY, "leased_at", "consumer", "outcome", "finished_at"),
    "table_dead_letters": (*_BODY, "due_at", *_DEATH),
    "table_leased_dead_letters": (*_BODY, *_LEASE, *_DEATH),
    "table_history": (
        *("line", "seq", "queue", "id", "outcome", "sent_at", "leased_at", "finished_at", "attempts", "consumer", "error"),
        *("key", "group", "priority", "format", "payload", "headers"),
    ),
    "table_audit": _AUDIT,
    "table_slice": (*_BODY, *_LEASE, "_place"),
}
"""The columns of each query in tabular.sql, in order. All other columns of the schema are NULL."""

_TEXTS_AS_BYTES = {"headers", "backoff", "keys_if_undelivered"}
"""JSON that the database stores as bytes."""
_STAGED_TYPES = dict.fromkeys(PREPARED_COLUMNS, NUMBER) | {
    **dict.fromkeys(("queue", "message_key", "group_key", "own_id"), TEXT),
    **dict.fromkeys(("payload", "headers", "backoff", "kv_keys"), BYTES),
}
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 10_000, 32 << 20


class RowReader:
    """Reads the rows of a session, for databases without native Arrow support."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    @contextmanager
    def reading(self) -> Iterator[Snapshot]:
        with self._dialect.reading() as session:
            yield _Rows(session)

    def close(self) -> None:
        """Nothing to do: the connections belong to the dialect."""


class _Rows:
    def __init__(self, session: Session) -> None:
        self._session = session

    def batches(self, query: str, columns: list[str], values: dict[str, Any]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002  # all come
        return _batches_of(self._session.stream(query, **values), GIVEN[query])


def _batches_of(rows: Iterator[tuple[Any, ...]], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Collects a driver's rows into batches."""
    payload = names.index("payload") if "payload" in names else None
    pieces = pieces_of(rows, _ROWS_AT_ONCE, _BYTES_AT_ONCE, lambda row: 0 if payload is None else len(row[payload] or b""))
    return (_gathered(piece, names) for piece in pieces)


def pieces_of(items: Iterable[T], most: int, most_bytes: int, weigh: Callable[[T], int]) -> Iterator[list[T]]:
    """Lists of up to `most` items; large items make shorter lists."""
    piece: list[T] = []
    size = 0
    for item in items:
        piece.append(item)
        size += weigh(item)
        if len(piece) == most or size >= most_bytes:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _gathered(rows: list[tuple[Any, ...]], names: Sequence[str]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, _given_type(name)) for name, values in zip(names, columns, strict=True)], names=list(names)
    )


def _given_type(name: str) -> pa.DataType:
    if name in _TEXTS_AS_BYTES:
        return BYTES
    return NUMBER if name == "format" or _TYPES.get(name) == TIME else _TYPES.get(name, TEXT)


def to_staged(stage: str, first: int, now: int, messages: Sequence[Prepared]) -> pa.RecordBatch:
    """Rows of rowq_staged."""
    count = len(messages)
    places = pa.Array.from_buffers(NUMBER, count, [None, pa.py_buffer(array("q", range(first, first + count)))])
    arrays = [pa.repeat(pa.scalar(stage), count), places, pa.repeat(pa.scalar(now, NUMBER), count)]
    arrays += [_array(list(map(attrgetter(name), messages)), _STAGED_TYPES[name]) for name in PREPARED_COLUMNS]
    return pa.RecordBatch.from_arrays(arrays, names=["stage", "place", "staged_at", *PREPARED_COLUMNS])


def _array(values: Sequence[object], type: pa.DataType) -> pa.Array:
    """Most columns hold the same value in every row and are not converted value by value."""
    if values.count(values[0]) == len(values):
        return pa.repeat(pa.scalar(values[0], type), len(values))
    return pa.array(values, type)


def picked(query: str, schema: pa.Schema) -> list[str]:
    """The columns that a query must return for a schema; at least one, so that the rows can be counted."""
    wanted = set(schema.names) | ({"payload", "format"} if "payload_text" in schema.names else set())
    return [name for name in GIVEN[query] if name in wanted] or [GIVEN[query][0]]


def shaped(given: pa.RecordBatch, schema: pa.Schema, **constants: str | int) -> pa.RecordBatch:
    """Builds the columns of a schema from those of a query; `constants` are the same in every row."""
    count = given.num_rows
    arrays = [
        pa.repeat(pa.scalar(constants[field.name], field.type), count) if field.name in constants else _column(given, field)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(given: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name == "payload_text":
        return _text_of(given["payload"], given["format"])
    if field.name not in given.schema.names:
        return pa.nulls(given.num_rows, field.type)
    values = given[field.name]
    if field.name == "format":
        return _cast(pc.if_else(pc.equal(_cast(values, NUMBER), 1), "json", "bytes"), TEXT)
    return _to_time(_cast(values, NUMBER)) if field.type == TIME else _cast(values, field.type)


def _text_of(payloads: pa.Array, formats: pa.Array) -> pa.Array:
    """If every payload is JSON, as almost always, no bytes are copied."""
    is_text = pc.equal(_cast(formats, NUMBER), 1)
    payloads = _cast(payloads, BYTES)
    if not pc.all(is_text, skip_nulls=True).as_py():
        payloads = pc.if_else(is_text, payloads, pa.scalar(None, BYTES))
    return payloads.cast(TEXT)


def _to_time(millis: pa.Array) -> pa.Array:
    """A time beyond the calendar means never."""
    latest = pc.max(millis).as_py()
    if latest is not None and latest > LAST_MS:
        millis = pc.if_else(pc.less_equal(millis, LAST_MS), millis, pa.scalar(None, NUMBER))
    return pc.multiply(millis, 1000).cast(TIME)


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column that is all NULL may have any type."""
    if values.type == wanted:
        return values
    return pa.nulls(len(values), wanted) if values.null_count == len(values) else values.cast(wanted)
