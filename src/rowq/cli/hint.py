"""Hints for a person at a terminal: on stderr only, so that they never end up in a file or a pipe."""

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
