"""Words for whoever sits at a terminal: on stderr, and only there, where they cannot end up in a file or in a script's way."""

from __future__ import annotations

import difflib
import sys
from contextlib import suppress

import rowq
from rowq.cli.text import visible
from rowq.model.queue import split_name


def is_seen() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def hint(sentence: str) -> None:
    if is_seen():
        sys.stderr.write(f"{visible(sentence)}\n")


def hint_unknown(broker: rowq.Broker, queue: str) -> None:
    """Nothing was found: perhaps since the name is mistyped, which is no error, as a queue exists by use."""
    if not is_seen():
        return
    name = split_name(queue)[0]
    with suppress(rowq.RowqError):  # a key that may not list queues
        known = [stats.queue for stats in broker.queues()]
        if name not in known:
            alike = difflib.get_close_matches(name, known, n=1)
            hint(f"there is no queue {name!r}" + (f": did you mean {alike[0]!r}?" if alike else " so far"))


def hint_paused(broker: rowq.Broker, queue: str) -> None:
    """Nothing was received, and nothing will be: a copy, for one, leaves its source so."""
    if not is_seen():
        return
    with suppress(rowq.RowqError):
        if broker.stats(queue).paused:
            name = split_name(queue)[0]
            hint(f"{name} is paused: rowq resume {name}")
