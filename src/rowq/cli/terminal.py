"""What only a person at a terminal sees, on stderr: hints, the question before something that cannot be undone, a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import rowq
from rowq import InvalidArgument
from rowq.cli.output import Failure
from rowq.cli.text import visible
from rowq.model.queue import split_name


def is_seen() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def hint(sentence: str) -> None:
    if is_seen():
        note(sentence)


def hint_unknown(broker: rowq.Broker, queue: str) -> None:
    """Nothing was received, perhaps because the name is mistyped. That is not an error: a receive may wait for a new queue."""
    if is_seen() and (missing := _missing(broker, split_name(queue)[0])) is not None:
        hint(str(missing))


@contextmanager
def told_of_new(broker: rowq.Broker, queue: str) -> Iterator[None]:
    """Wraps a command that creates missing queues: reports a new queue on stderr, since it may be a typing error."""
    is_new = _missing(broker, queue) is not None
    yield
    if is_new:
        note(f"created the queue {queue}")


def note(sentence: str) -> None:
    """On stderr, terminal or not: for what a script should not miss and must not find among the results."""
    if sys.stderr is not None:
        sys.stderr.write(f"{visible(sentence)}\n")


def _missing(broker: rowq.Broker, queue: str) -> rowq.QueueNotFound | None:
    with suppress(rowq.RowqError):  # a malformed name is reported by the command, and a key may only be for sending
        try:
            broker.settings(queue)
        except rowq.QueueNotFound as error:
            return error
    return None


def hint_paused(broker: rowq.Broker, queue: str) -> None:
    """Nothing was received because the queue is paused: a copy, for example, leaves its source paused."""
    if not is_seen():
        return
    with suppress(rowq.RowqError):
        if broker.stats(queue).paused:
            name = split_name(queue)[0]
            hint(f"{name} is paused: rowq resume {name}")


def confirm(question: str, *, yes: bool) -> None:
    """Continues only after `--yes` or a typed yes; a script without --yes gets an error instead of a prompt that waits."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidArgument(f"cannot ask {question!r} without a terminal: add --yes")
    sys.stderr.write(f"{visible(question)} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure("nothing was changed", code="declined")


Advance = Callable[[int], None]
"""Called with how much is done so far."""


@contextmanager
def bar(title: str, total: int | None, *, of_bytes: bool = False, hidden: bool = False) -> Iterator[Advance]:
    if hidden or not is_seen():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    amount = DownloadColumn() if of_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, completed=done)
