"""Dead letters: look at them, and send them back to work."""

from __future__ import annotations

from typing import Annotated

import typer

import rowq
from rowq.cli.command import Session
from rowq.cli.failure import NOTHING, Failure
from rowq.cli.listing import show_messages
from rowq.cli.moment import Since, Until
from rowq.cli.parameter import After, Group, Key, Limit, Queue
from rowq.cli.progress import bar
from rowq.cli.text import counted


def dead(
    session: Session,
    queue: Queue,
    key: Key = None,
    group: Group = None,
    since: Since = None,
    until: Until = None,
    after: After = None,
    limit: Limit = 100,
) -> None:
    """List the dead letters of a queue, with reason and last error."""
    with session.connect() as broker:
        messages = broker.browse(
            queue, state=rowq.State.DEAD, key=key, group=group, sent_after=since, sent_before=until, after=after, limit=limit
        )
    show_messages(session.output, messages, rowq.State.DEAD, limit)


def redrive(
    session: Session,
    queue: Queue,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Only these.", show_default=False)] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Only those with this reason, for instance max_attempts_reached or rejected.")
    ] = None,
    error: Annotated[str | None, typer.Option("--error", help="Only those whose last error contains this.")] = None,
    key: Key = None,
    group: Group = None,
    limit: Annotated[int | None, typer.Option("--limit", help="At most so many, oldest first.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="At most so many a second.")] = None,
) -> None:
    """Put dead letters back into their queue: all, or some."""
    where = rowq.Where(reason=reason, error=error, key=key, group=group)
    filtered = where != rowq.Where()
    if ids and filtered:
        raise rowq.InvalidArgument("name dead letters by id, or by filter, not both")
    with session.connect() as broker:
        total = len(ids) if ids else _total(broker.stats(queue).dead, limit, filtered=filtered)
        with bar(f"redrive {queue}", total) as advance:
            count = broker.redrive(queue, ids=ids or None, where=where if filtered else None, limit=limit, rate=rate, progress=advance)
    session.output.answer(f"{counted(count, 'dead letter')} redriven", queue=queue, redriven=count)
    if ids and count < len(set(ids)) and limit is None:
        sentence = f"{len(set(ids)) - count} of {counted(len(set(ids)), 'id')} named no dead letter of {queue}"
        raise Failure(sentence, code=rowq.MessageNotFound.code, exit_code=NOTHING)


def _total(dead: int, limit: int | None, *, filtered: bool) -> int | None:
    """How many are to come; a filter's number is not known before."""
    if filtered:
        return None
    return dead if limit is None else min(dead, limit)
