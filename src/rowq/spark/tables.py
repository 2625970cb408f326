"""The tables of a queue as Arrow, for data pipelines that read all of them, in any process.

    with open_tabular("postgresql://…") as tabular:
        bounds = tabular.bounds("history", queues=None)
        for piece in tabular.pieces("history", bounds, parts=8, most=None) if bounds else []:
            for batch in tabular.read(piece, queues=None):
                …

A piece is plain data: another process can read it, on another host. Reading takes nothing out of a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
import pyarrow as pa

from rowq.connect import open_dialect
from rowq.errors import InvalidArgument
from rowq.model.message import State
from rowq.model.queue import check_name
from rowq.model.stream import Slice
from rowq.store.dialect import Dialect, Reader, Session, Watermark
from rowq.store.retry import TryAgain
from rowq.store.stream.arrow import PLACE_COLUMNS, SCHEMAS, RowReader, picked, shaped
from rowq.store.stream.ledger import lost

__all__ = ["FILTERS", "KINDS", "LOGS", "PLACE_COLUMNS", "SCHEMAS", "Piece", "Tabular", "open_tabular"]

T = TypeVar("T")
_MOST_TRIES = 3


class Piece(msgspec.Struct, frozen=True):
    """Rows of a table between two numbers, both included: seqs of messages, or lines of a log."""

    kind: str
    first: int
    last: int


def open_tabular(url: str) -> Tabular:
    """Opens nothing before it is needed."""
    return Tabular(url)


class Tabular:
    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: tuple[Dialect, Reader, Watermark] | None = None

    def bounds(
        self, kind: str, *, queues: Sequence[str] | None, since_ms: int | None = None, until_ms: int | None = None
    ) -> tuple[int, int] | None:
        """The first and the last number of a table, for `pieces`; None if it is empty. They may lie further apart than what a read gives:
        times only narrow the history of named queues."""
        return self._ask(lambda session: _bounds(session, _check_kind(kind), queues, since_ms, until_ms))

    def pieces(self, kind: str, bounds: tuple[int, int], parts: int, most: int | None) -> list[Piece]:
        """Ranges of the same width: `parts` of them, or more if none may be wider than `most`."""
        first, last = bounds
        width = last - first + 1
        if width < 1 or parts < 1 or (most is not None and most < 1):
            raise InvalidArgument(f"{width} rows cannot be cut into {parts} parts of at most {most}: give whole numbers of 1 and more")
        count = min(width, max(parts, 1 if most is None else -(-width // most)))
        edges = [first + width * number // count for number in range(count + 1)]
        return [Piece(_check_kind(kind), low, high - 1) for low, high in pairwise(edges)]

    def read(
        self,
        piece: Piece,
        *,
        queues: Sequence[str] | None,
        states: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """All rows of a piece, from one snapshot. `queues`: None for all of them.

        `where` takes, where applicable: `state` (or several with commas), `reason`, `outcome`, `event`; `since` and `until`,
        milliseconds since 1970 of the sending (messages), the death (dead), the end (history), the event (audit), the second one not
        included; `min_priority` and `max_priority`.
        """
        kind = _check_kind(piece.kind)
        schema = _chosen_columns(SCHEMAS[kind], columns, kind)
        chosen = dict(where or {})
        if "state" in chosen and kind == "messages":
            states = [state.strip() for state in str(chosen.pop("state")).split(",")]
        values = _to_values(kind, chosen) | {"first": piece.first, "last": piece.last} | _weight(schema)
        questions = _to_queries(kind, states)
        _, reader, _ = self._open()
        named = self._named(kind, queues)
        with reader.reading() as snapshot:
            for query, state in questions:
                constants = {} if state is None else {"state": state}
                for given in snapshot.batches(query, picked(query, schema), values | named):
                    yield shaped(given, schema, **constants)

    def read_slice(self, slice: Slice, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The messages of a part of a stream's batch, in order, with `_stream`, `_batch` and `_place`. Quarantined ones are left out. If
        one is missing, an error is raised instead of the end: what was read until then is not the batch."""
        fields = pa.schema([*SCHEMAS["messages"], *PLACE_COLUMNS])
        schema = _chosen_columns(fields, columns, "messages of a stream")
        values = {"stream": slice.stream, "batch": slice.batch, "first": slice.first, "last": slice.last}
        dialect, reader, _ = self._open()
        found = 0
        with reader.reading() as snapshot:
            for given in snapshot.batches("table_slice", picked("table_slice", schema), values | _weight(schema)):
                found += given.num_rows
                yield shaped(given, schema, state=State.LEASED, _stream=slice.stream, _batch=slice.batch)
        if found != slice.count:
            with dialect.reading() as session:
                raise lost(session, slice, found)

    def settled(self, kind: str) -> int:
        """Up to this line of `history` or `audit` nothing new will appear. It may lag behind open transactions, and waits for them for at
        most a second."""
        _, _, watermark = self._open()
        return self._insist(lambda: watermark.settled(_check_log(kind)))

    def last_line(self, kind: str) -> int:
        """The last line written, settled or not."""
        return self._ask(lambda session: int(session.rows(f"last_line_{_check_log(kind)}")[0][0]))

    def landmark(self, kind: str, line: int) -> list[int] | None:
        """The last line at or before a given one: its number, its message and its time. In a restored log that has grown since, the same
        number is on another line; None if all of them are gone."""
        found = self._ask(lambda session: session.rows(f"landmark_{_check_log(kind)}", line=line))
        return [int(value) for value in found[0]] if found else None

    def identity(self) -> int:
        """A number that identifies this database, whatever address it is reached by."""
        dialect, _, _ = self._open()
        return dialect.identity()

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            dialect, reader, _ = opened
            reader.close()
            dialect.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _open(self) -> tuple[Dialect, Reader, Watermark]:
        if self._opened is None:
            dialect = open_dialect(self._url)
            self._opened = dialect, dialect.arrow() or RowReader(dialect), dialect.watermark()
        return self._opened

    def _named(self, kind: str, queues: Sequence[str] | None) -> dict[str, Any]:
        """A log may contain queues that are gone; messages are in queues that are listed."""
        if kind in LOGS:
            return {"every": int(queues is None), "queues": _check_queues(queues)}
        if queues is not None:
            return {"queues": _check_queues(queues)}
        return {"queues": self._ask(_all_queues)}

    def _ask(self, question: Callable[[Session], T]) -> T:
        def ask() -> T:
            dialect, _, _ = self._open()
            with dialect.reading() as session:
                return question(session)

        return self._insist(ask)

    def _insist(self, attempt: Callable[[], T]) -> T:
        """Retries: an idle connection may have broken."""
        for _ in range(_MOST_TRIES - 1):
            with suppress(TryAgain):
                return attempt()
        return attempt()


def _bounds(
    session: Session, kind: str, queues: Sequence[str] | None, since_ms: int | None, until_ms: int | None
) -> tuple[int, int] | None:
    if kind == "history" and queues is not None and (since_ms is not None or until_ms is not None):
        since, until = since_ms or 0, (1 << 62) if until_ms is None else until_ms
        found = session.rows("bounds_recent_history", queues=_check_queues(queues), since=since, until=until)[0]
    elif kind == "dead":
        found = session.rows("bounds_dead", queues=_all_queues(session) if queues is None else _check_queues(queues))[0]
    else:
        found = session.rows(f"bounds_{kind}")[0]
    numbers = [number for number in found if number is not None]
    return (min(numbers), max(numbers)) if numbers else None


def _all_queues(session: Session) -> list[str]:
    return [row[0] for row in session.rows("read_all_settings")]


KINDS = ("messages", "dead", "history", "audit")
LOGS = ("history", "audit")

_STATES: dict[str, tuple[str, ...]] = {State.READY: ("ready", "moved"), **{state: (state,) for state in State if state is not State.READY}}
"""The queries that give the messages of a state."""
FILTERS = {
    "messages": ("state", "since", "until", "min_priority", "max_priority"),
    "dead": ("reason", "since", "until", "min_priority", "max_priority"),
    "history": ("outcome", "since", "until", "min_priority", "max_priority"),
    "audit": ("event", "since", "until"),
}
_TEXTS = ("reason", "outcome", "event")
_NUMBERS = {"since": "since", "until": "until", "min_priority": "lowest", "max_priority": "highest"}


def _check_queues(queues: Sequence[str] | None) -> list[str]:
    if isinstance(queues, str):
        raise InvalidArgument(f"queues must be a list of names, not the text {queues!r}")
    return [check_name(name) for name in queues or ()]


def _check(name: str, known: Collection[str], what: str) -> str:
    if name not in known:
        raise InvalidArgument(f"{name!r} is not a {what}; {what}s are: {', '.join(known)}")
    return name


_check_kind = partial(_check, known=KINDS, what="table")
_check_log = partial(_check, known=LOGS, what="log")


def _chosen_columns(schema: pa.Schema, columns: Sequence[str] | None, what: str) -> pa.Schema:
    if columns is None:
        return schema
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        raise InvalidArgument(f"there is no column {unknown[0]!r} in {what}, which has {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in columns])


def _weight(schema: pa.Schema) -> dict[str, int]:
    """Leaves out payloads and headers that are not requested."""
    wants_payload = "payload" in schema.names or "payload_text" in schema.names
    return {"with_payload": int(wants_payload), "with_body": int(wants_payload or "format" in schema.names or "headers" in schema.names)}


def _to_queries(kind: str, states: Sequence[str] | None) -> list[tuple[str, str | None]]:
    """The queries to run, and the state of the messages that each gives."""
    if kind == "messages":
        chosen = [_check(state, _STATES, "state") for state in states or _STATES]
        return [(f"table_{place}", str(state)) for state in chosen for place in _STATES[state]]
    if states is not None:
        raise InvalidArgument(f"states are for messages: {kind} has none")
    if kind == "dead":
        return [("table_dead_letters", State.DEAD), ("table_leased_dead_letters", State.LEASED)]
    return [(f"table_{kind}", None)]


def _to_values(kind: str, where: dict[str, Any]) -> dict[str, Any]:
    unknown = [name for name in where if name not in FILTERS[kind]]
    if unknown:
        raise InvalidArgument(f"{kind} cannot be filtered by {unknown[0]!r}; filters are: {', '.join(FILTERS[kind])}")
    values: dict[str, Any] = dict.fromkeys([*_TEXTS, *_NUMBERS.values()])
    for name, value in where.items():
        if name in _NUMBERS:
            values[_NUMBERS[name]] = _whole(name, value)
        elif not isinstance(value, str) or not value.isascii() or "\0" in value:
            raise InvalidArgument(f"{name} must be an event of the audit or an outcome of a message, such as rejected, not {value!r}")
        else:
            values[name] = value
    return values


def _whole(name: str, value: object) -> int:
    try:
        number = int(value)  # type: ignore[call-overload]  # any type
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name} must be a whole number, not {value!r}") from None
    if abs(number) >> 62:
        raise InvalidArgument(f"{name} must be a whole number below 2^62, not {value!r}")
    return int(number)
