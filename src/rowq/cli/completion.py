"""What a shell offers when somebody presses Tab: the names of queues. Commands and options Typer knows by itself."""

from __future__ import annotations

import os

import typer

import rowq
from rowq.cli.command import DEFAULT_URL

PATIENCE = 2.0
"""Seconds for a server or a database that is slow to answer: whoever pressed Tab has typed on by then."""


def queue_names(context: typer.Context, incomplete: str) -> list[str]:
    """Those of the database that the line so far names; none where there is nothing to ask, since a shell shows no errors."""
    given = context.params.get("url") or (context.parent.params.get("url") if context.parent else None)
    try:
        with rowq.connect(given or os.environ.get("ROWQ_URL") or DEFAULT_URL, migrate=False, upkeep=False, timeout=PATIENCE) as broker:
            return [stats.queue for stats in broker.queues() if stats.queue.startswith(incomplete)]
    except rowq.RowqError:
        return []
