"""Queues: stats, consumers, configure, pause, resume, purge."""

from __future__ import annotations

from typing import Annotated

import typer

import rowq
from rowq.cli.command import Session
from rowq.cli.confirmation import confirm
from rowq.cli.document import fields
from rowq.cli.output import Column
from rowq.cli.parameter import OptionalQueue, Queue, Yes, duration_option
from rowq.cli.settings import read_pairs, show_settings
from rowq.cli.text import ago, counted
from rowq.model.member import DEAD_AFTER

_STATES = tuple(str(state) for state in rowq.State)
_WAITING = (rowq.State.READY, rowq.State.SCHEDULED, rowq.State.BLOCKED)


def stats(session: Session, queue: OptionalQueue = None) -> None:
    """Count the messages of one queue, or of all, by state."""
    with session.connect() as broker:
        counts = broker.queues() if queue is None else [broker.stats(queue)]
    if session.output.json:
        documents = [{**fields(count), "depth": count.depth} for count in counts]
        session.output.document(documents if queue is None else documents[0])
        return
    now = rowq.SystemClock().now()
    columns = [Column("queue", style="cyan"), *(Column(state, right=True) for state in _STATES), Column("oldest ready"), Column("")]
    session.output.table(columns, (_row(count, now) for count in counts))


def consumers(
    session: Session,
    queue: Queue,
    dead_after: Annotated[float | None, duration_option("--dead-after", "The silence after which they are dead; 5s by default.")] = None,
) -> None:
    """List the consumers of a queue that are alive, the oldest first.

    Only those that register do: the consumers of the library. Whoever just receives is seen beside the messages that it has.
    """
    with session.connect() as broker:
        members = broker.consumers(queue, dead_after=DEAD_AFTER if dead_after is None else dead_after)
    if session.output.json:
        session.output.document([fields(member) for member in members])
        return
    now = rowq.SystemClock().now()
    columns = (Column("index", right=True), Column("consumer", style="cyan"), Column("born"), Column("heard of"))
    session.output.table(columns, ([str(each.index), each.id, ago(each.born_at, now), ago(each.beat_at, now)] for each in members))


def configure(
    session: Session,
    queue: Queue,
    pairs: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Settings.", show_default=False)] = None,
) -> None:
    """Show the settings of a queue, after changing some.

    Durations are written as 30, 500ms, 10s, 5m, 2h or 7d; a backoff as 1s,5s,30s or exponential:1s,cap=1h; a JSON schema as schema=@FILE.
    NAME=none or NAME= goes back to the default (keep and lease_expiry_backoff have a none of their own: write keep= for the default).
    """
    changes = read_pairs(pairs or [])
    with session.connect(create=bool(changes)) as broker:
        settings = broker.configure(queue, **changes) if changes else broker.settings(queue)
        policy = broker.policy(queue)
    show_settings(session.output, queue, settings, policy)


def pause(session: Session, queue: Queue) -> None:
    """Hand out nothing more of a queue; sending goes on."""
    with session.connect(create=True) as broker:
        broker.pause(queue)
    session.output.answer(f"{queue} is paused", queue=queue, paused=True)


def resume(session: Session, queue: Queue) -> None:
    """Hand out messages of a paused queue again."""
    with session.connect() as broker:
        broker.resume(queue)
    session.output.answer(f"{queue} is running", queue=queue, paused=False)


def purge(
    session: Session,
    queue: Queue,
    state: Annotated[
        list[rowq.State] | None, typer.Option("--state", help="Which messages; may be repeated. Default: ready, scheduled and blocked.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Delete the messages of a queue, after asking."""
    states = state or list(_WAITING)
    with session.connect() as broker:
        counts = broker.stats(queue)
        named = " and ".join(f"{getattr(counts, each):,} {each}" for each in states)
        confirm(f"Delete {named} from {queue}?", yes=yes)
        purged = broker.purge(queue, states=states)
    session.output.answer(f"{counted(purged, 'message')} deleted", queue=queue, purged=purged)


def _row(count: rowq.Stats, now: int) -> list[str]:
    counts = [f"{getattr(count, state):,}" for state in _STATES]
    return [count.queue, *counts, ago(count.oldest_ready_at, now), "paused" if count.paused else ""]
