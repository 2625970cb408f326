"""Bulk load and dump: messages as JSON Lines, in constant memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import rowq
from rowq.cli import files
from rowq.cli.command import Session
from rowq.cli.document import json_line
from rowq.cli.loading import Loading
from rowq.cli.parameter import OptionalQueue
from rowq.cli.progress import bar
from rowq.cli.text import counted
from rowq.transfer import line

# In this order the head of a group comes before its followers, and messages taken first come first again.
_TO_BE_DONE = (rowq.State.LEASED, rowq.State.READY, rowq.State.SCHEDULED, rowq.State.BLOCKED)
_IN_ORDER = (*_TO_BE_DONE, rowq.State.DEAD, rowq.State.FINISHED)
_EVERY = 1000

File = Annotated[Path | None, typer.Argument(metavar="FILE", help="A file, or - for stdin and stdout; the default.", show_default=False)]
FileOption = Annotated[Path | None, typer.Option("--file", metavar="FILE", help="The same as FILE, if no QUEUE is given.")]


def load(
    session: Session,
    queue: OptionalQueue = None,
    file: File = None,
    file_option: FileOption = None,
    raw: Annotated[bool, typer.Option("--raw", help="Each line is a payload, in JSON.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Each line is a payload, as text.")] = False,
    keep_ids: Annotated[bool, typer.Option("--keep-ids", help="Send under the ids of the lines.")] = False,
    skip: Annotated[int, typer.Option("--skip", min=0, help="Skip this many lines at the beginning.")] = 0,
    skip_known: Annotated[bool, typer.Option("--skip-known", help="With --keep-ids: skip ids that are already here.")] = False,
) -> None:
    """Send messages from JSON Lines, of any length.

    A line is what dump writes, for instance {"payload": {"to": "ada"}, "key": "welcome-42"}.
    It has payload or payload_base64, and may have headers, key, group, priority, delay_ms or at_ms,
    ttl_ms, deadline_ms, max_attempts, backoff_ms, keys_if_undelivered, id. Without QUEUE each line names its queue.
    Messages are sent as new: attempts start at zero, and ids are new unless --keep-ids.

    At a bad line it stops, and shows which line it is and how to continue: with --skip N.
    Then the first N lines are in the queue, and no others.
    After a crash, when N is unknown, a load with --keep-ids --skip-known can be repeated.
    """
    if (skip_known and not keep_ids) or (keep_ids and (raw or text)):
        raise rowq.InvalidArgument("--skip-known needs --keep-ids, and --keep-ids needs lines with ids, not --raw or --text ones")
    chosen = _one(file, file_option)
    _check_is_queue(queue, chosen)
    read = line.reader(raw=raw, text=text, keep_ids=keep_ids, need_ids=skip_known)
    with (
        files.source(chosen) as source,
        session.connect(create=True) as broker,
        bar("load", files.size_of(source), of_bytes=True) as advance,
    ):
        loading = Loading(broker, queue, skip=skip, skip_known=skip_known)
        loading.run(source, read, advance)
    known = f", {counted(loading.known, 'line')} passed over" if skip_known else ""
    session.output.answer(f"{counted(loading.loaded, 'message')} loaded{known}", loaded=loading.loaded, known=loading.known)


def dump(
    session: Session,
    queue: OptionalQueue = None,
    file: File = None,
    file_option: FileOption = None,
    state: Annotated[
        list[rowq.State] | None, typer.Option("--state", help="Which messages; may be repeated. Default: all that is still to be done.")
    ] = None,
) -> None:
    """Write the messages of a queue, or of all, as JSON Lines.

    Dead letters and finished messages are only written with --state, since load would send them again.
    The file appears under its name when it is complete.
    """
    states = [each for each in _IN_ORDER if each in (state or _TO_BE_DONE)]
    chosen = _one(file, file_option)
    count = 0
    with session.connect() as broker:
        counts = broker.queues() if queue is None else [broker.stats(queue)]
        total = sum(getattr(each, name) for each in counts for name in states)
        now = rowq.SystemClock().now()
        with files.sink(chosen, session.output) as write, bar("dump", total, hidden=_shares_the_screen(chosen)) as advance:
            for message in broker.walk(queue, states=states):
                write(json_line(line.to_line(message, now)))
                count += 1
                if count % _EVERY == 0:
                    advance(count)
    if files.is_named(chosen):
        session.output.answer(f"{counted(count, 'message')} dumped", dumped=count, file=str(chosen))


def _one(file: Path | None, file_option: Path | None) -> Path | None:
    if file is not None and file_option is not None:
        raise rowq.InvalidArgument("give one file: as FILE or as --file FILE")
    return file or file_option


def _check_is_queue(queue: str | None, file: Path | None) -> None:
    """`load FILE` at a terminal would take the file's name for a queue's, and wait for typed lines."""
    if queue is not None and file is None and sys.stdin is not None and sys.stdin.isatty() and Path(queue).is_file():
        raise rowq.InvalidArgument(f"{queue} is a file: load QUEUE {queue}, or load --file {queue} where each line names its queue")


def _shares_the_screen(file: Path | None) -> bool:
    """A progress bar would disturb a dump to the terminal."""
    return not files.is_named(file) and sys.stdout.isatty()
