"""The arguments and options that several commands share, each with its one line of help."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rowq.cli import value
from rowq.cli.completion import queue_names

_queue = typer.Argument(metavar="QUEUE", help="The name of a queue.", show_default=False, autocompletion=queue_names)
Queue = Annotated[str, _queue]
OptionalQueue = Annotated[str | None, _queue]
Id = Annotated[str, typer.Argument(metavar="ID", help="The id of a message.", show_default=False)]
InQueue = Annotated[
    str | None, typer.Option("--in", metavar="QUEUE", help="The queue of the message, where several queues have one of this id.")
]
Receipts = Annotated[
    list[str],
    typer.Argument(metavar="RECEIPT", help="Receipts, or - for lines of stdin: a receipt each, or what receive --json prints."),
]
Key = Annotated[str | None, typer.Option("--key", help="Only messages with this key.")]
Group = Annotated[str | None, typer.Option("--group", help="Only messages of this group.")]
After = Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="Go on behind this message: its cursor, as --json shows it.")]
Limit = Annotated[int, typer.Option("--limit", help="At most so many, 1 to 1000.")]
Newest = Annotated[bool, typer.Option("--newest", help="The last that died or finished first; only of dead and finished messages.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; kept with the message.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def duration_option(name: str, help: str) -> Any:
    """An option that takes a duration: 30, 1.5, 500ms, 10s, 5m, 2h, 7d."""
    return typer.Option(name, metavar="DURATION", parser=value.duration, help=help)
