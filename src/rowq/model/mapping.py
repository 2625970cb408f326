"""From the columns of a table to messages: what each column means, with each row checked as a send would check it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from rowq.errors import InvalidArgument, RowqError
from rowq.model.draft import Prepared, prepare
from rowq.model.message import Draft
from rowq.model.payload import Format, check_encoded, encode
from rowq.model.queue import check_own_name

if TYPE_CHECKING:
    import pyarrow as pa

PayloadKind = Literal["auto", "json", "text", "bytes"]
Encoded = tuple[int, bytes]

_JSON, _BYTES = int(Format.JSON), int(Format.BYTES)
_OPTIONS = ("headers", "key", "group", "priority", "delay", "at", "ttl", "deadline", "max_attempts", "id")


class Mapping(msgspec.Struct, frozen=True, kw_only=True):
    """Names of columns, except `queue` and `payload_as`. A named column must exist; NULL in it means unset.

    `payload_as`: what the payload column holds. `json` is JSON as text or bytes, sent unchanged; `text` is sent as a JSON string;
    `bytes` are bytes; `auto` treats text as JSON, bytes as bytes, and sends the value of any other column.
    """

    queue: str | None = None
    """The queue of all messages, unless `queue_column` names one for each."""
    queue_column: str | None = None
    payload: str = "payload"
    payload_as: PayloadKind = "auto"
    format: str | None = None
    """A column that says `json` or `bytes` for each payload, as in rows read from a queue."""
    headers: str | None = None
    """A map of text to text, or a JSON object as text."""
    key: str | None = None
    group: str | None = None
    priority: str | None = None
    delay: str | None = None
    """Seconds, as `ttl` and `deadline`."""
    at: str | None = None
    """A timestamp with a timezone."""
    ttl: str | None = None
    deadline: str | None = None
    max_attempts: str | None = None
    id: str | None = None


class Drafting:
    """Turns batches with the same columns into messages; rows are numbered through all batches."""

    def __init__(self, mapping: Mapping) -> None:
        if (mapping.queue is None) == (mapping.queue_column is None):
            raise InvalidArgument("give either one queue for all messages, or the column that names the queue of each")
        self._mapping = mapping
        self._queue = None if mapping.queue is None else check_own_name(mapping.queue)
        self._named: set[str] = set()
        """Queues whose names were checked."""
        self._seen = 0

    def messages(self, batch: pa.RecordBatch) -> list[Prepared]:
        """InvalidArgument names the invalid row, counted from 0."""
        mapping, first = self._mapping, self._seen
        payloads = self._payloads(batch)
        queues = [self._queue] * batch.num_rows if mapping.queue_column is None else self._column(batch, mapping.queue_column)
        given = {option: self._column(batch, name) for option in _OPTIONS if (name := getattr(mapping, option)) is not None}
        self._seen += batch.num_rows
        messages: list[Prepared] = []
        try:
            if not given:
                for queue, (format, data) in zip(queues, payloads, strict=True):
                    messages.append(Prepared(self._own_queue(queue), format, data))
            else:
                names = tuple(given)
                for queue, encoded, *values in zip(queues, payloads, *given.values(), strict=True):
                    messages.append(_prepared(self._own_queue(queue), encoded, dict(zip(names, values, strict=True))))
        except RowqError as error:
            raise type(error)(f"row {len(messages) + first}: {error}") from None
        return messages

    def _own_queue(self, name: Any) -> str:
        if name not in self._named:
            self._named.add(check_own_name(name))
        return str(name)

    def _column(self, batch: pa.RecordBatch, name: str) -> list[Any]:
        try:
            return list(_found(batch, name).to_pylist())
        except (ValueError, OverflowError) as error:  # such as a year beyond 9999
            raise InvalidArgument(f"the column {name!r} holds a value that cannot be read: {error}") from None

    def _payloads(self, batch: pa.RecordBatch) -> Iterable[Encoded]:
        """Lazily, so that the caller knows which row is wrong."""
        column = _found(batch, self._mapping.payload)
        values = _raw_values(column)
        if self._mapping.format is not None:
            formats = self._column(batch, self._mapping.format)
            return (_of_format(format, value) for format, value in zip(formats, values, strict=True))
        return map(_encoder(column, self._mapping.payload_as), values)


def _found(batch: pa.RecordBatch, name: str) -> Any:
    if name not in batch.schema.names:
        raise InvalidArgument(f"there is no column {name!r}; the table has {', '.join(batch.schema.names)}")
    return batch.column(name)


def _raw_values(column: Any) -> list[Any]:
    """Text as its bytes: JSON is checked and stored as bytes."""
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.binary() if pa.types.is_string(column.type) else pa.large_binary())
    return list(column.to_pylist())


def _encoder(column: Any, kind: PayloadKind) -> Callable[[Any], Encoded]:
    import pyarrow as pa

    types, type = pa.types, column.type
    is_text = types.is_string(type) or types.is_large_string(type)
    is_bytes = types.is_binary(type) or types.is_large_binary(type) or types.is_fixed_size_binary(type)
    if kind == "auto":
        kind = "json" if is_text else "bytes"
    elif not is_text and (kind == "text" or not is_bytes):
        raise InvalidArgument(f"the payload column holds {type}, which cannot be sent as {kind}: convert it first, or leave that out")
    if not is_text and not is_bytes:
        return _of_value
    return {"json": _of_json, "text": _of_text, "bytes": _of_bytes}[kind]


def _of_json(data: bytes | None) -> Encoded:
    try:
        return _JSON, check_encoded(_there(data))
    except InvalidArgument as error:
        raise InvalidArgument(f"{error}; send text that is not JSON as `text`") from None


def _of_text(data: bytes | None) -> Encoded:
    return encode(_there(data).decode())


def _of_bytes(data: bytes | None) -> Encoded:
    return _BYTES, _there(data)


def _of_value(value: Any) -> Encoded:
    return encode(_there(value))


def _of_format(format: object, value: Any) -> Encoded:
    if format not in ("json", "bytes"):
        raise InvalidArgument(f"the format of a payload is json or bytes, not {format!r}")
    if not isinstance(value, bytes):
        raise InvalidArgument("a payload with a format is text or bytes")
    return _of_json(value) if format == "json" else _of_bytes(value)


def _there(value: Any) -> Any:
    if value is None:
        raise InvalidArgument("the payload is NULL: leave such rows out, or send the JSON text null")
    return value


def _prepared(queue: str, encoded: Encoded, options: dict[str, Any]) -> Prepared:
    given = {name: _number(value) for name, value in options.items() if value is not None}
    if "headers" in given:
        given["headers"] = _headers(given["headers"])
    message = prepare(queue, Draft(None, **given))
    message.format, message.payload = encoded
    return message


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _headers(value: Any) -> Any:
    if isinstance(value, list):  # how Arrow represents a map
        return dict(value)
    if isinstance(value, str | bytes):
        try:
            return msgspec.json.decode(value, type=dict[str, str])
        except (ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise InvalidArgument(f"headers must be a JSON object of text values: {error}") from None
    return value
