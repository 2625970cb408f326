"""Messages on the screen: a table of messages in one state, and one message in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rowq import Message, State, SystemClock
from rowq.cli.document import fields
from rowq.cli.hint import hint
from rowq.cli.output import Column, Output
from rowq.cli.text import ago, counted, indented, moment, preview
from rowq.model.stream import is_held_by_stream

_STREAMED = "with its stream's batch"

_Cell = Callable[[Message, int], str]

_ID: tuple[Column, _Cell] = (Column("id", style="cyan"), lambda m, now: m.id)
_SENT: tuple[Column, _Cell] = (Column("sent"), lambda m, now: ago(m.sent_at, now))
_BY_STATE: dict[State, list[tuple[Column, _Cell]]] = {
    State.SCHEDULED: [(Column("due"), lambda m, now: ago(m.due_at, now))],
    State.LEASED: [
        (Column("lease ends"), lambda m, now: _end(m.lease_until, now)),
        (Column("consumer"), lambda m, now: m.consumer or ""),
    ],
    State.DEAD: [
        (Column("died"), lambda m, now: ago(m.died_at, now)),
        (Column("reason", style="red"), lambda m, now: m.reason or ""),
        (Column("error", flexible=True), lambda m, now: m.error or ""),
    ],
    State.FINISHED: [
        (Column("finished"), lambda m, now: ago(m.finished_at, now)),
        (Column("outcome"), lambda m, now: m.outcome or ""),
    ],
}
_WHERE_USED: list[tuple[Column, _Cell]] = [
    (Column("attempts", right=True), lambda m, now: str(m.attempts or "")),
    (Column("priority", right=True), lambda m, now: str(m.priority or "")),
    (Column("key"), lambda m, now: m.key or ""),
    (Column("group"), lambda m, now: m.group or ""),
]
_PAYLOAD: tuple[Column, _Cell] = (Column("payload", flexible=True), lambda m, now: preview(m.payload))

_TIMES = {"sent_at", "deadline", "due_at", "expires_at", "lease_until", "leased_at", "died_at", "finished_at"}


def show_messages(output: Output, messages: Sequence[Message], state: State, limit: int) -> None:
    """JSON Lines, or a table without its empty columns."""
    if output.documents(messages):
        return
    now = SystemClock().now()
    used = [(column, cell) for column, cell in _WHERE_USED if any(cell(message, now) for message in messages)]
    shown = [_ID, *_BY_STATE.get(state, [_SENT]), *used, _PAYLOAD]
    if messages:
        output.table([column for column, _ in shown], ([cell(message, now) for _, cell in shown] for message in messages))
    hint(counted(len(messages), f"{state} message"))
    if len(messages) == limit:
        hint(f"perhaps more: --after {messages[-1].cursor}")


def show_details(output: Output, message: Message) -> None:
    """Every field that is set, one per line; then the payload."""
    now = SystemClock().now()
    for name, given in fields(message).items():
        if given is None or given == {} or name in ("payload", "payload_base64", "cursor"):
            continue
        if name == "lease_until" and is_held_by_stream(given):
            output.line(f"{name:<20} {_STREAMED}")
        else:
            output.line(f"{name:<20} {moment(given, now) if name in _TIMES else given}")
    output.line("")
    for line in indented(message.payload):
        output.line(line)


def _end(lease_until: int | None, now: int) -> str:
    return _STREAMED if is_held_by_stream(lease_until) else ago(lease_until, now)
