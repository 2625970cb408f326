"""The Arrow schemas of the tables, and the conversion from what a database returns: column by column, never row by row.

Times are timestamps in UTC; a time beyond the calendar is NULL. `payload` holds the bytes that were sent, and
`payload_text` the same as text if it is JSON.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from rowq.model.draft import PREPARED_COLUMNS, Prepared
from rowq.model.duration import LAST_MS

TEXT, NUMBER, BYTES, TIME = pa.string(), pa.int64(), pa.binary(), pa.timestamp("us", tz="UTC")

_MESSAGE = {
    "id": TEXT,
    "queue": TEXT,
    "state": TEXT,
    "seq": NUMBER,
    "payload": BYTES,
    "payload_text": TEXT,
    "format": TEXT,
    "headers": TEXT,
    "priority": NUMBER,
    "key": TEXT,
    "group": TEXT,
    "attempts": NUMBER,
    "error": TEXT,
    "sent_at": TIME,
    "due_at": TIME,
    "expires_at": TIME,
    "deadline": TIME,
    "lease_until": TIME,
    "leased_at": TIME,
    "consumer": TEXT,
    "ttl_ms": NUMBER,
    "max_attempts": NUMBER,
    "backoff": TEXT,
    "keys_if_undelivered": TEXT,
    "reason": TEXT,
    "died_at": TIME,
    "redeliveries": NUMBER,
}
_HISTORY = {
    "line": NUMBER,
    "id": TEXT,
    "seq": NUMBER,
    "queue": TEXT,
    "outcome": TEXT,
    "sent_at": TIME,
    "leased_at": TIME,
    "finished_at": TIME,
    "attempts": NUMBER,
    "consumer": TEXT,
    "error": TEXT,
    "key": TEXT,
    "group": TEXT,
    "priority": NUMBER,
    "payload": BYTES,
    "payload_text": TEXT,
    "format": TEXT,
    "headers": TEXT,
}
_AUDIT = {
    "line": NUMBER,
    "at": TIME,
    "queue": TEXT,
    "seq": NUMBER,
    "event": TEXT,
    "attempt": NUMBER,
    "actor": TEXT,
    "detail": TEXT,
}
SCHEMAS: dict[str, pa.Schema] = {
    "messages": pa.schema(_MESSAGE | {"outcome": TEXT, "finished_at": TIME}),
    "dead": pa.schema(_MESSAGE),
    "history": pa.schema(_HISTORY),
    "audit": pa.schema(_AUDIT),
}
PLACE_COLUMNS = pa.schema({"_stream": TEXT, "_batch": NUMBER, "_place": NUMBER})
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
    "table_audit": ("line", "at", "queue", "seq", "event", "attempt", "actor", "detail"),
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


def batches_of(rows: Iterator[tuple[object, ...]], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Collects a driver's rows into batches; large payloads make smaller batches."""
    weigh = names.index("payload") if "payload" in names else None
    taken: list[tuple[object, ...]] = []
    size = 0
    for row in rows:
        taken.append(row)
        if weigh is not None and (payload := row[weigh]) is not None:
            size += len(payload)  # type: ignore[arg-type]  # bytes
        if len(taken) == _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield _gathered(taken, names)
            taken, size = [], 0
    if taken:
        yield _gathered(taken, names)


def _gathered(rows: list[tuple[object, ...]], names: Sequence[str]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, _given_type(name)) for name, values in zip(names, columns, strict=True)], names=list(names)
    )


def _given_type(name: str) -> pa.DataType:
    if name in _TEXTS_AS_BYTES:
        return BYTES
    if name in ("format", "_place"):
        return NUMBER
    wanted = next(schema.field(name).type for schema in SCHEMAS.values() if name in schema.names)
    return NUMBER if wanted == TIME else wanted


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
