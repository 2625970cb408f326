"""Words for whoever sits at a terminal: on stderr, and only there, where they cannot end up in a file or in a script's way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import rowq
from rowq.cli.text import visible
from rowq.model.queue import split_name


def is_seen() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def hint(sentence: str) -> None:
    if is_seen():
        note(sentence)


def hint_unknown(broker: rowq.Broker, queue: str) -> None:
    """Nothing was received: perhaps since the name is mistyped, which is not an error, as a receive may wait for a new queue."""
    if is_seen() and (missing := _missing(broker, split_name(queue)[0])) is not None:
        hint(str(missing))


@contextmanager
def told_of_new(broker: rowq.Broker, queue: str) -> Iterator[None]:
    """Around a command that makes a queue where there is none: a new one may be a typing error, and is told on stderr."""
    is_new = _missing(broker, queue) is not None
    yield
    if is_new:
        note(f"created the queue {queue}")


def note(sentence: str) -> None:
    """On stderr, whether a terminal is there or not: what a script should not miss, and stands in the way of no result."""
    if sys.stderr is not None:
        sys.stderr.write(f"{visible(sentence)}\n")


def _missing(broker: rowq.Broker, queue: str) -> rowq.QueueNotFound | None:
    with suppress(rowq.RowqError):  # a malformed name is told by the command, and a key may be for sending only
        try:
            broker.settings(queue)
        except rowq.QueueNotFound as error:
            return error
    return None


def hint_paused(broker: rowq.Broker, queue: str) -> None:
    """Nothing was received, and nothing will be: a copy, for one, leaves its source so."""
    if not is_seen():
        return
    with suppress(rowq.RowqError):
        if broker.stats(queue).paused:
            name = split_name(queue)[0]
            hint(f"{name} is paused: rowq resume {name}")
