"""The arguments and options that several commands share, each with its one line of help."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

import rowq
from rowq.cli import value
from rowq.cli.command import DEFAULT_URL


def queue_names(context: typer.Context, incomplete: str) -> list[str]:
    """The queues of the database given on the line so far; none on an error, since a shell shows none."""
    given = context.params.get("url") or (context.parent.params.get("url") if context.parent else None)
    try:
        with rowq.connect(given or os.environ.get("ROWQ_URL") or DEFAULT_URL, migrate=False, maintenance=False, timeout=PATIENCE) as broker:
            return [stats.queue for stats in broker.queues() if stats.queue.startswith(incomplete)]
    except rowq.RowqError:
        return []


_queue = typer.Argument(metavar="QUEUE", help="The name of a queue.", show_default=False, autocompletion=queue_names)
Queue = Annotated[str, _queue]
OptionalQueue = Annotated[str | None, _queue]
Id = Annotated[str, typer.Argument(metavar="ID", help="The id of a message.", show_default=False)]
InQueue = Annotated[
    str | None, typer.Option("--in", metavar="QUEUE", help="The queue of the message, if several queues have one with this id.")
]
Receipts = Annotated[
    list[str],
    typer.Argument(metavar="RECEIPT", help="Receipts, or - for lines of stdin: one receipt each, or the output of receive --json."),
]
Key = Annotated[str | None, typer.Option("--key", help="Only messages with this key.")]
Group = Annotated[str | None, typer.Option("--group", help="Only messages of this group.")]
After = Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="Start after this message: its cursor, as --json shows it.")]
Limit = Annotated[int, typer.Option("--limit", help="At most this many, 1 to 1000.")]
Newest = Annotated[bool, typer.Option("--newest", help="The last to die or finish comes first; only for dead and finished messages.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; kept with the message.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def duration_option(name: str, help: str) -> Any:
    """An option that takes a duration: 30, 1.5, 500ms, 10s, 5m, 2h, 7d."""
    return typer.Option(name, metavar="DURATION", parser=value.duration, help=help)


PATIENCE = 2.0
"""Seconds for a server or a database that is slow to answer: a person who pressed Tab has typed on by then."""
