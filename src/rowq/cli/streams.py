"""Streams: list them, take back what one holds, and remove a message from its way."""

from __future__ import annotations

from typing import Annotated

import typer

from rowq.cli.command import Session
from rowq.cli.output import Column
from rowq.cli.parameter import Yes
from rowq.cli.terminal import confirm
from rowq.cli.text import ago, counted
from rowq.model.stream import Stream

Name = Annotated[str, typer.Argument(metavar="STREAM", help="The name of the stream: the streamId of a query.", show_default=False)]


def list_streams(session: Session) -> None:
    """List the streams: what each holds, and when it was last active.

    A stream holds batches that its query has not settled yet; quarantine takes their numbers.
    """
    with session.connect() as broker:
        streams = broker.streams()
    columns = (
        *(Column("stream", style="cyan"), Column("queues", flexible=True), Column("settled up to", right=True)),
        *(Column("batches held", right=True), Column("messages held", right=True), Column("heard of")),
    )
    session.output.listing(streams, columns, _row)


def revoke(session: Session, stream: Name, yes: Yes = False) -> None:
    """Return all that a stream holds to its queues, after asking; this ends its checkpoint.

    For a query that will not run again. Stop it first: messages that it is processing are delivered twice.
    """
    with session.connect() as broker:
        held = sum(each.messages for each in broker.streams() if each.name == stream)
        confirm(f"Send {counted(held, 'message')} of {stream} back, and end the checkpoint of its query?", yes=yes)
        count = broker.revoke_stream(stream)
    session.output.answer(f"{counted(count, 'message')} sent back", stream=stream, revoked=count)


def quarantine(
    session: Session,
    stream: Name,
    batch: Annotated[int, typer.Argument(metavar="BATCH", help="Its number: see rowq streams list.", show_default=False)],
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Messages of that batch: see rowq browse.", show_default=False)],
    reason: Annotated[str | None, typer.Option("--reason", help="Why; kept with the messages.")] = None,
    yes: Yes = False,
) -> None:
    """Turn messages of a batch into dead letters, after asking; the batch continues without them.

    For a message that the query of a stream fails on. Start the query again afterwards.
    What a stream holds: rowq browse QUEUE --state leased, where the consumer is stream:STREAM.
    """
    with session.connect() as broker:
        confirm(f"Make {counted(len(ids), 'message')} of {stream} dead letters?", yes=yes)
        count = broker.quarantine(stream, batch, ids, reason=reason)
    session.output.answer(f"{counted(count, 'message')} quarantined", stream=stream, batch=batch, quarantined=count)


def _row(stream: Stream, now: int) -> list[str]:
    held = _held(stream), f"{stream.messages:,}"
    return [stream.name, ", ".join(stream.queues), str(stream.acked_batch), *held, ago(stream.beat_at, now)]


def _held(stream: Stream) -> str:
    """The numbers of the batches that are not settled: they are consecutive, up to the newest."""
    first, last = stream.next_batch - stream.batches, stream.next_batch - 1
    return "" if first > last else str(last) if first == last else f"{first} to {last}"
