"""What a reader of tables may choose: which table, which rows, which columns. Checked here, and put into the words of the queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rowq.errors import InvalidArgument
from rowq.model.message import State
from rowq.model.queue import check_name

KINDS = ("messages", "dead", "history", "audit")
LOGS = ("history", "audit")

_STATES: dict[str, tuple[str, ...]] = {State.READY: ("ready", "moved"), **{state: (state,) for state in State if state is not State.READY}}
"""The queries that give the messages of a state."""
_PREDICATES = {
    "messages": ("state", "since", "until", "min_priority", "max_priority"),
    "dead": ("reason", "since", "until", "min_priority", "max_priority"),
    "history": ("outcome", "since", "until", "min_priority", "max_priority"),
    "audit": ("event", "since", "until"),
}
_TEXTS = ("reason", "outcome", "event")
_NUMBERS = {"since": "since", "until": "until", "min_priority": "lowest", "max_priority": "highest"}


def check_queues(queues: Sequence[str] | None) -> list[str]:
    if isinstance(queues, str):
        raise InvalidArgument(f"queues must be a list of names, not the text {queues!r}")
    return [check_name(name) for name in queues or ()]


def check_kind(kind: str) -> str:
    if kind not in KINDS:
        raise InvalidArgument(f"{kind!r} is no table; tables are: {', '.join(KINDS)}")
    return kind


def check_log(kind: str) -> str:
    if kind not in LOGS:
        raise InvalidArgument(f"{kind!r} is no log; logs are: {', '.join(LOGS)}")
    return kind


def chosen_columns(schema: pa.Schema, columns: Sequence[str] | None, what: str) -> pa.Schema:
    if columns is None:
        return schema
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        raise InvalidArgument(f"there is no column {unknown[0]!r} in {what}, which has {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in columns])


def weight(schema: pa.Schema) -> dict[str, int]:
    """What need not be sent where nobody asks for it."""
    wants_payload = "payload" in schema.names or "payload_text" in schema.names
    return {"with_payload": int(wants_payload), "with_body": int(wants_payload or "format" in schema.names or "headers" in schema.names)}


def to_queries(kind: str, states: Sequence[str] | None) -> list[tuple[str, str | None]]:
    """The queries to ask, and the state of the messages that each gives."""
    if kind == "messages":
        unknown = [state for state in states or () if state not in _STATES]
        if unknown:
            raise InvalidArgument(f"{unknown[0]!r} is no state; states are: {', '.join(_STATES)}")
        return [(f"table_{place}", str(state)) for state in (states or _STATES) for place in _STATES[state]]
    if states is not None:
        raise InvalidArgument(f"states are for messages: {kind} has none")
    if kind == "dead":
        return [("table_dead_letters", State.DEAD), ("table_leased_dead_letters", State.LEASED)]
    return [(f"table_{kind}", None)]


def to_values(kind: str, where: dict[str, Any]) -> dict[str, Any]:
    unknown = [name for name in where if name not in _PREDICATES[kind]]
    if unknown:
        raise InvalidArgument(f"{kind} cannot be chosen by {unknown[0]!r}; there are: {', '.join(_PREDICATES[kind])}")
    values: dict[str, Any] = dict.fromkeys([*_TEXTS, *_NUMBERS.values()])
    for name, value in where.items():
        if name in _NUMBERS:
            values[_NUMBERS[name]] = _whole(name, value)
        elif not isinstance(value, str) or not value.isascii() or "\0" in value:
            raise InvalidArgument(f"{name} must be a word of the audit or of a message's end, such as rejected, not {value!r}")
        else:
            values[name] = value
    return values


def _whole(name: str, value: object) -> int:
    try:
        number = int(value)  # type: ignore[call-overload]  # whatever it is
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name} must be a whole number, not {value!r}") from None
    if abs(number) >> 62:
        raise InvalidArgument(f"{name} must be a whole number below 2^62, not {value!r}")
    return int(number)
