"""The arguments and options that several commands share, and how their text becomes values."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

import rowq
from rowq.cli.command import DEFAULT_URL
from rowq.cli.files import is_named, read_file, read_stdin
from rowq.model.duration import moment_ms
from rowq.model.settings_text import read_duration


def duration(text: str) -> float:
    """Seconds, from `30`, `1.5`, `500ms`, `10s`, `5m`, `2h` or `7d`; a wrong value is reported with the option's name."""
    try:
        return read_duration(text)
    except rowq.InvalidArgument as error:
        raise typer.BadParameter(str(error)) from None


def headers(pairs: list[str] | None) -> dict[str, str] | None:
    """`name=value` pairs; the value may contain further `=`."""
    if not pairs:
        return None
    for pair in pairs:
        if "=" not in pair:
            raise rowq.InvalidArgument(f"{pair!r} is not a header: write --header name=value")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def payload(data: bytes, *, text: bool, raw: bool) -> Any:
    """JSON unless declared as text or bytes: the type of a payload never depends on its content."""
    if raw:
        return data
    try:
        return data.decode() if text else msgspec.json.decode(data)
    except UnicodeDecodeError:
        raise rowq.InvalidArgument("the payload is not UTF-8: send it with --bytes") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise rowq.InvalidArgument(f"the payload is not JSON ({error}): quote it as JSON, or send it with --text or --bytes") from None


def payload_data(argument: str | None, file: Path | None) -> bytes:
    """The bytes of a payload: from the argument, from a file, or from stdin (`-`)."""
    if (argument is None) == (file is None):
        raise rowq.InvalidArgument("give one payload: as an argument, as --file FILE, or as - for stdin")
    if argument is not None and argument != "-":
        return os.fsencode(argument)
    return read_file(file) if file is not None and is_named(file) else read_stdin()


_MILLISECONDS = re.compile(r"[0-9]{13,19}")
"""No duration has this many digits, and milliseconds since 1970 have had thirteen since 2001."""


def moment(text: str) -> int:
    """Milliseconds since 1970, from `2h` (ago), `2026-01-31`, `2026-01-31T09:30Z` or `1767225600000`. Without a timezone it is UTC."""
    text = text.strip()
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        return max(0, rowq.SystemClock().now() - round(duration(text) * 1000))
    except typer.BadParameter:
        at = _written(text, "2h (ago), 2026-01-31, 2026-01-31T09:30Z or milliseconds since 1970")
        return moment_ms(at if at.tzinfo else at.replace(tzinfo=UTC), "this")


def coming(text: str) -> datetime:
    """A moment in the future. The verb that takes it checks for a timezone."""
    return _written(text.strip(), "2026-12-24T18:00+01:00 or 2026-12-24T17:00Z")


def _written(text: str, ways: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a moment: write {ways}") from None


Since = Annotated[
    int | None,
    typer.Option("--since", metavar="WHEN", parser=moment, help="Only messages sent since: 2h (ago), or a time such as 2026-01-31T09:30Z."),
]
Until = Annotated[int | None, typer.Option("--until", metavar="WHEN", parser=moment, help="Only messages sent before: as for --since.")]
At = Annotated[
    datetime | None, typer.Option("--at", metavar="WHEN", parser=coming, help="Not before this moment, such as 2026-12-24T18:00+01:00.")
]


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
    return typer.Option(name, metavar="DURATION", parser=duration, help=help)


PATIENCE = 2.0
"""Seconds for a server or a database that is slow to answer: a person who pressed Tab has typed on by then."""
