"""Messages: send, receive, browse, get, audit, delete; and how they look on the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

import rowq
from rowq.cli import parameter
from rowq.cli.command import Session
from rowq.cli.output import NOTHING, Column, Failure, Output
from rowq.cli.parameter import After, At, Group, Id, InQueue, Key, Limit, Newest, Queue, Since, Until, Yes, duration_option
from rowq.cli.receipts import check_outcomes
from rowq.cli.terminal import confirm, hint, hint_paused, hint_unknown, told_of_new
from rowq.cli.text import ago, counted, fields, indented, moment, preview, span, whole
from rowq.model.queue import DeliveryMode
from rowq.model.settings_text import read_backoff
from rowq.model.stream import is_held_by_stream

_STREAMED = "with its stream's batch"

_Cell = Callable[[rowq.Message, int], str]

_ID: tuple[Column, _Cell] = (Column("id", style="cyan"), lambda m, now: m.id)
_SENT: tuple[Column, _Cell] = (Column("sent"), lambda m, now: ago(m.sent_at, now))
_BY_STATE: dict[rowq.State, list[tuple[Column, _Cell]]] = {
    rowq.State.SCHEDULED: [(Column("due"), lambda m, now: ago(m.due_at, now))],
    rowq.State.LEASED: [
        (Column("lease ends"), lambda m, now: _end(m.lease_until, now)),
        (Column("consumer"), lambda m, now: m.consumer or ""),
    ],
    rowq.State.DEAD: [
        (Column("died"), lambda m, now: ago(m.died_at, now)),
        (Column("reason", style="red"), lambda m, now: m.reason or ""),
        (Column("error", flexible=True), lambda m, now: m.error or ""),
    ],
    rowq.State.FINISHED: [
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


def send(
    session: Session,
    queue: Queue,
    payload: Annotated[str | None, typer.Argument(metavar="PAYLOAD", help="JSON; or - to read it from stdin.")] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Take the payload from a file.")] = None,
    text: Annotated[bool, typer.Option("--text", help="The payload is text, not JSON.")] = False,
    raw: Annotated[bool, typer.Option("--bytes", help="The payload is bytes, not JSON.")] = False,
    key: Annotated[str | None, typer.Option("--key", help="Replace the waiting message of this key, if there is one.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="Messages of a group go out one at a time, in order.")] = None,
    priority: Annotated[int, typer.Option("--priority", help="Higher goes first.")] = 0,
    delay: Annotated[float | None, duration_option("--delay", "Deliver it only after this.")] = None,
    at: At = None,
    ttl: Annotated[float | None, duration_option("--ttl", "Expire after this.")] = None,
    deadline: Annotated[float | None, duration_option("--deadline", "Must be finished within this.")] = None,
    max_attempts: Annotated[int | None, typer.Option("--max-attempts", help="Deliveries until it is a dead letter; 0: no limit.")] = None,
    backoff: Annotated[
        str | None, typer.Option("--backoff", metavar="BACKOFF", help="Before each retry: 1s,5s,30s or exponential:1s,cap=1h or linear:5s.")
    ] = None,
    header: Annotated[list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header; may be repeated.")] = None,
    undelivered: Annotated[
        list[str] | None,
        typer.Option("--key-if-undelivered", metavar="A/B", help="Keep the payload under this key if it dies; repeatable."),
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="An id of your own; sending it twice is refused.")] = None,
) -> None:
    """Send a message and print its id.

    PAYLOAD is always JSON: text needs quotes ('"hello"') or --text. A payload that begins with a dash goes after two: rowq send q -- -5
    """
    if text and raw:
        raise rowq.InvalidArgument("a payload is text or bytes: give one of --text and --bytes")
    content = parameter.payload(parameter.payload_data(payload, file), text=text, raw=raw)
    with session.connect(create=True) as broker, told_of_new(broker, queue):
        sent = broker.send(
            queue,
            content,
            key=key,
            group=group,
            priority=priority,
            delay=delay or 0,
            at=at,
            ttl=ttl,
            deadline=deadline,
            max_attempts=max_attempts,
            backoff=None if backoff is None else read_backoff(backoff),
            headers=parameter.headers(header),
            keys_if_undelivered=[path.split("/") for path in undelivered or []],
            id=id,
        )
    session.output.answer(sent, id=sent)


def receive(
    session: Session,
    queue: Queue,
    max: Annotated[int, typer.Option("--max", help="At most this many, 1 to 1000.")] = 1,
    wait: Annotated[float | None, duration_option("--wait", "Wait this long for the first.")] = None,
    lease: Annotated[float | None, duration_option("--lease", "How long you hold them. Default: as the queue is configured.")] = None,
    consumer: Annotated[str | None, typer.Option("--consumer", help="A name, kept with the lease.")] = None,
    at_most_once: Annotated[bool, typer.Option("--at-most-once", help="If this consumer dies, they are not delivered again.")] = False,
    ack: Annotated[bool, typer.Option("--ack", help="Ack them once they are printed.")] = False,
) -> None:
    """Take messages under a lease and print them with their receipts.

    QUEUE.dlq means the dead letters of QUEUE. If there is no message, the exit code is 3.
    With --ack, what could not be printed is not acked: its lease expires, and it is delivered again.
    """
    with session.connect(create=True, maintenance=True) as broker:
        mode: DeliveryMode | None = "at_most_once" if at_most_once else None
        deliveries = broker.receive(queue, max=max, wait=wait or 0, lease=lease, consumer=consumer, delivery=mode)
        for delivery in deliveries:
            _show_delivery(session, delivery)
        # Only what has left this process may be acked: a closed pipe must not lose a message.
        session.output.flush()
        outcomes = broker.ack_many(deliveries) if ack else []
        if not deliveries:
            hint_unknown(broker, queue)
            hint_paused(broker, queue)
    if not deliveries:
        raise Failure(f"no message is ready in {queue}", code="empty", exit_code=NOTHING)
    check_outcomes(outcomes)


def browse(
    session: Session,
    queue: Queue,
    state: Annotated[rowq.State, typer.Option("--state", help="Which messages.")] = rowq.State.READY,
    key: Key = None,
    group: Group = None,
    text: Annotated[str | None, typer.Option("--text", help="Only messages whose payload or last error contains this.")] = None,
    since: Since = None,
    until: Until = None,
    after: After = None,
    limit: Limit = 100,
    newest: Newest = False,
) -> None:
    """Look at the messages of a queue without taking them."""
    with session.connect() as broker:
        messages = broker.browse(
            queue,
            state=state,
            key=key,
            group=group,
            text=text,
            sent_after=since,
            sent_before=until,
            after=after,
            limit=limit,
            newest=newest,
        )
    show_messages(session.output, messages, state, limit)


def get(session: Session, id: Id, queue: InQueue = None) -> None:
    """Show one message, whatever its state."""
    with session.connect() as broker:
        message = broker.get(id, queue=queue)
    if session.output.json:
        session.output.document(message)
    else:
        show_details(session.output, message)


def audit(
    session: Session,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="The id of a message.", show_default=False)] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="Only what operators did to this queue.")] = None,
    where: InQueue = None,
    limit: Annotated[int, typer.Option(help="At most this many actions of operators.")] = 100,
) -> None:
    """Show what happened to a message, oldest first; without ID what operators did, newest first."""
    if (queue if id is not None else where) is not None:
        raise rowq.InvalidArgument("give the id of a message, perhaps with --in; or --queue for what operators did to one")
    with session.connect() as broker:
        events = broker.actions(queue, limit=limit) if id is None else broker.audit(id, queue=where)
    if not events and id is None:
        raise Failure("no operator has configured, paused or purged anything yet", code="empty", exit_code=NOTHING)
    if not events:
        raise Failure(f"nothing is known of a message {id}", code="message_not_found", exit_code=NOTHING)
    if session.output.documents(events):
        return
    what = Column("queue", style="cyan") if id is None else Column("attempt", right=True)
    columns = (Column("at"), Column("event"), what, Column("by"), Column("detail", flexible=True))
    now = rowq.SystemClock().now()
    rows = ((moment(e.at, now), e.event, e.queue if id is None else str(e.attempt or ""), e.actor or "", e.detail or "") for e in events)
    session.output.table(columns, rows)


def delete(
    session: Session,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="The ids of messages.", show_default=False)] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="Delete this queue instead: its messages and its settings.")] = None,
    where: InQueue = None,
    yes: Yes = False,
) -> None:
    """Delete messages by id in any state, or a whole queue."""
    if (queue is None) == (not ids) or (where is not None and not ids):
        raise rowq.InvalidArgument("name what to delete: ids, perhaps with --in QUEUE; or a whole queue with --queue QUEUE")
    with session.connect() as broker:
        if queue is not None:
            stats = broker.stats(queue)
            held = stats.depth + stats.dead
            confirm(f"Delete {queue} with its settings and {counted(held, 'message')}?", yes=yes)
            broker.delete_queue(queue)
            session.output.answer(f"{queue} is deleted", queue=queue, deleted=held)
            return
        refused = {id: error for id in ids or () if (error := _refusal(broker, id, where))}
    missing = [id for id, error in refused.items() if isinstance(error, rowq.MessageNotFound)]
    done = len(ids or ()) - len(refused)
    session.output.answer(f"{counted(done, 'message')} deleted", deleted=done, not_found=missing)
    for error in refused.values():
        if isinstance(error, rowq.AmbiguousId):
            raise error
    if missing:
        raise Failure(f"not found: {', '.join(missing)}", code="message_not_found", exit_code=NOTHING)


def _refusal(broker: rowq.Broker, id: str, queue: str | None) -> rowq.RowqError | None:
    """Why a message is still there; None when it is deleted."""
    try:
        broker.delete(id, queue=queue)
    except (rowq.MessageNotFound, rowq.AmbiguousId) as error:
        return error
    return None


def _show_delivery(session: Session, delivery: rowq.Delivery) -> None:
    """In full, since with --ack the message is shown only once."""
    if session.output.json:
        session.output.document(delivery)
        return
    now = rowq.SystemClock().now()
    facts = [f"attempt {delivery.attempt}", f"lease {span(delivery.lease_until - now)}", f"sent {ago(delivery.sent_at, now)}"]
    facts += [f"{name} {given}" for name, given in (("key", delivery.key), ("group", delivery.group)) if given is not None]
    facts += [f"{name}={given}" for name, given in delivery.headers.items()]
    session.output.line(delivery.receipt)
    session.output.line(f"  {', '.join(facts)}")
    session.output.line(f"  {whole(delivery.payload)}")


def show_messages(output: Output, messages: Sequence[rowq.Message], state: rowq.State, limit: int) -> None:
    """JSON Lines, or a table without its empty columns."""
    if output.documents(messages):
        return
    now = rowq.SystemClock().now()
    used = [(column, cell) for column, cell in _WHERE_USED if any(cell(message, now) for message in messages)]
    shown = [_ID, *_BY_STATE.get(state, [_SENT]), *used, _PAYLOAD]
    if messages:
        output.table([column for column, _ in shown], ([cell(message, now) for _, cell in shown] for message in messages))
    hint(counted(len(messages), f"{state} message"))
    if len(messages) == limit:
        hint(f"perhaps more: --after {messages[-1].cursor}")


def show_details(output: Output, message: rowq.Message) -> None:
    """Every field that is set, one per line; then the payload."""
    now = rowq.SystemClock().now()
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
