"""Dead letters: list them, put them back into their queue, or delete them."""

from __future__ import annotations

from typing import Annotated

import typer

import rowq
from rowq.cli.command import Session
from rowq.cli.messages import show_messages
from rowq.cli.output import NOTHING, Column, Failure
from rowq.cli.parameter import After, Group, Key, Limit, Newest, Queue, Since, Until, Yes
from rowq.cli.terminal import bar, confirm, note
from rowq.cli.text import ago, counted
from rowq.model.queue import dead_topic, split_name

Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Only these.", show_default=False)]
OfReason = Annotated[
    str | None, typer.Option("--reason", help="Only those with this reason, for instance max_attempts_reached or rejected.")
]
OfError = Annotated[str | None, typer.Option("--error", help="Only those whose last error contains this.")]
OfFingerprint = Annotated[
    str | None, typer.Option("--fingerprint", help="Only those whose last error has this fingerprint, as rowq failures shows it.")
]
Most = Annotated[int | None, typer.Option("--limit", help="At most this many, oldest first.")]


def dead(
    session: Session,
    queue: Queue,
    reason: OfReason = None,
    error: OfError = None,
    fingerprint: OfFingerprint = None,
    key: Key = None,
    group: Group = None,
    since: Since = None,
    until: Until = None,
    after: After = None,
    limit: Limit = 100,
    newest: Newest = False,
) -> None:
    """List the dead letters of a queue, with reason and last error."""
    with session.connect() as broker:
        messages = broker.browse(
            queue,
            state=rowq.State.DEAD,
            reason=reason,
            error=error,
            fingerprint=fingerprint,
            key=key,
            group=group,
            sent_after=since,
            sent_before=until,
            after=after,
            limit=limit,
            newest=newest,
        )
    show_messages(session.output, messages, rowq.State.DEAD, limit)


def failures(
    session: Session,
    queue: Queue,
    limit: Annotated[int, typer.Option("--limit", help="At most this many kinds of failure, up to 1,000.")] = 100,
) -> None:
    """Show why messages died: dead letters grouped by reason and error.

    The newest 10,000 are examined. Numbers, ids, paths and quoted values in an error are ignored for the grouping. rowq redrive
    --fingerprint takes a fingerprint as it is shown here.
    """
    with session.connect() as broker:
        found = broker.failures(queue, limit=limit)
    if found.more:
        note(f"only the newest {found.looked_at:,} dead letters were examined")
    if session.output.documents(found.failures):
        return
    now = rowq.SystemClock().now()
    columns = (
        Column("count", right=True),
        Column("reason", style="red"),
        Column("fingerprint", flexible=True),
        Column("first"),
        Column("last"),
        Column("for instance", style="cyan"),
    )
    session.output.table(columns, (_failure(each, now) for each in found.failures))


def redrive(
    session: Session,
    queue: Queue,
    ids: Ids = None,
    reason: OfReason = None,
    error: OfError = None,
    fingerprint: OfFingerprint = None,
    key: Key = None,
    group: Group = None,
    limit: Most = None,
    rate: Annotated[float | None, typer.Option("--rate", help="At most this many per second.")] = None,
) -> None:
    """Put dead letters back into their queue: all, or some."""
    where = rowq.Where(reason=reason, error=error, fingerprint=fingerprint, key=key, group=group)
    filtered = _is_filtered(ids, where)
    with session.connect() as broker:
        total = len(ids) if ids else _total(broker.stats(queue).dead, limit, filtered=filtered)
        with bar(f"redrive {queue}", total) as advance:
            count = broker.redrive(queue, ids=ids or None, where=where if filtered else None, limit=limit, rate=rate, progress=advance)
    session.output.answer(f"{counted(count, 'dead letter')} redriven", queue=queue, redriven=count)
    _insist_on_all(ids, count, limit, queue)


def delete_dead(
    session: Session,
    queue: Queue,
    ids: Ids = None,
    reason: OfReason = None,
    error: OfError = None,
    fingerprint: OfFingerprint = None,
    key: Key = None,
    group: Group = None,
    limit: Most = None,
    yes: Yes = False,
) -> None:
    """Delete some dead letters permanently, after asking.

    To delete all of them, use rowq purge QUEUE.dlq.
    """
    where = rowq.Where(reason=reason, error=error, fingerprint=fingerprint, key=key, group=group)
    filtered = _is_filtered(ids, where)
    if not ids and not filtered:
        all_of_them = dead_topic(split_name(queue)[0])
        raise rowq.InvalidArgument(f"name dead letters by id or by filter; to delete all of them: rowq purge {all_of_them}")
    with session.connect() as broker:
        those = counted(len(set(ids)), "dead letter") if ids else "the dead letters that match"
        confirm(f"Delete {those} of {queue} permanently?", yes=yes)
        with bar(f"delete-dead {queue}", len(ids) if ids else None) as advance:
            count = broker.delete_dead(queue, ids=ids or None, where=where if filtered else None, limit=limit, progress=advance)
    session.output.answer(f"{counted(count, 'dead letter')} deleted", queue=queue, deleted=count)
    _insist_on_all(ids, count, limit, queue)


def _is_filtered(ids: list[str] | None, where: rowq.Where) -> bool:
    filtered = where != rowq.Where()
    if ids and filtered:
        raise rowq.InvalidArgument("name dead letters by id, or by filter, not both")
    return filtered


def _insist_on_all(ids: list[str] | None, count: int, limit: int | None, queue: str) -> None:
    if ids and count < len(set(ids)) and limit is None:
        sentence = f"{len(set(ids)) - count} of {counted(len(set(ids)), 'id')} named no dead letter of {queue}"
        raise Failure(sentence, code=rowq.MessageNotFound.code, exit_code=NOTHING)


def _failure(failure: rowq.Failure, now: int) -> list[str]:
    died = ago(failure.first_at, now), ago(failure.last_at, now)
    return [f"{failure.count:,}", failure.reason, failure.fingerprint, *died, failure.id]


def _total(dead: int, limit: int | None, *, filtered: bool) -> int | None:
    """How many are expected; unknown for a filter."""
    if filtered:
        return None
    return dead if limit is None else min(dead, limit)
