"""Queues: stats, consumers, configure, pause, resume, purge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import rowq
from rowq.cli.command import Session
from rowq.cli.files import read_file
from rowq.cli.output import Column, Output
from rowq.cli.parameter import OptionalQueue, Queue, Yes, duration_option
from rowq.cli.terminal import bar, confirm, told_of_new
from rowq.cli.text import ago, counted, fields, shortened
from rowq.model.member import DEAD_AFTER
from rowq.model.queue import SETTINGS, SettingsOptions, split_name
from rowq.model.settings_text import parse_setting, write_setting

_STATES = tuple(str(state) for state in rowq.State)
_WAITING = (rowq.State.READY, rowq.State.SCHEDULED, rowq.State.BLOCKED)


def stats(session: Session, queue: OptionalQueue = None) -> None:
    """Count the messages of one queue, or of all, by state."""
    with session.connect() as broker:
        counts = broker.queues() if queue is None else [broker.stats(queue)]
    if session.output.documents({**fields(count), "depth": count.depth} for count in counts):
        return
    now = rowq.SystemClock().now()
    columns = [Column("queue", style="cyan"), *(Column(state, right=True) for state in _STATES), Column("oldest ready"), Column("")]
    session.output.table(columns, (_row(count, now) for count in counts))


def consumers(
    session: Session,
    queue: OptionalQueue = None,
    dead_after: Annotated[float | None, duration_option("--dead-after", "Silence after which a consumer is dead; 5s by default.")] = None,
) -> None:
    """List the live consumers of a queue, the oldest first; or the consumers of all queues.

    For a queue: those that register, which are the consumers of the library. For all queues: also the dead, and those that hold messages.
    """
    silence = DEAD_AFTER if dead_after is None else dead_after
    with session.connect() as broker:
        found: Sequence[rowq.Member | rowq.ConsumerLook] = (
            broker.all_consumers(dead_after=silence) if queue is None else broker.consumers(queue, dead_after=silence)
        )
    columns = [Column("consumer", style="cyan"), Column("born"), Column("heard of")]
    if queue is None:
        columns = [Column("queue", style="cyan"), *columns, Column("in flight", right=True), Column("")]
    else:
        columns = [Column("index", right=True), *columns]
    session.output.listing(found, columns, _consumer_row)


def configure(
    session: Session,
    queue: Queue,
    pairs: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Settings to change.", show_default=False)] = None,
) -> None:
    """Show the settings of a queue, after changing some.

    Durations are written as 30, 500ms, 10s, 5m, 2h or 7d; a backoff as 1s,5s,30s or exponential:1s,cap=1h; a JSON schema as schema=@FILE.
    NAME=none or NAME= goes back to the default (keep and lease_expiry_backoff have a none of their own: write keep= for the default).
    """
    changes = read_pairs(pairs or [])
    with session.connect(create=bool(changes)) as broker:
        if changes:
            with told_of_new(broker, queue):
                broker.configure(queue, **changes)
        policy, origins = broker.policy(queue), broker.origins(queue)
    show_settings(session.output, queue, policy, origins)


def pause(session: Session, queue: Queue) -> None:
    """Stop delivering messages of a queue; sending continues."""
    with session.connect() as broker:
        broker.pause(queue)
    session.output.answer(f"{queue} is paused", queue=queue, paused=True)


def resume(session: Session, queue: Queue) -> None:
    """Deliver messages of a paused queue again."""
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
    states = state or ([rowq.State.DEAD] if split_name(queue)[1] else list(_WAITING))
    with session.connect() as broker:
        counts = broker.stats(queue)
        named = " and ".join(f"{getattr(counts, each):,} {each}" for each in states)
        confirm(f"Delete {named} from {queue}?", yes=yes)  # a question, not a query  # nosec
        with bar(f"purge {queue}", sum(getattr(counts, each) for each in states)) as advance:
            purged = broker.purge(queue, states=states, progress=advance)
    session.output.answer(f"{counted(purged, 'message')} deleted", queue=queue, purged=purged)


def _consumer_row(found: rowq.Member | rowq.ConsumerLook, now: int) -> list[str]:
    times = [ago(found.born_at, now), ago(found.beat_at, now)]
    if isinstance(found, rowq.Member):
        return [str(found.index), found.id, *times]
    known = {True: "", False: "dead", None: "not registered"}[found.alive]
    return [found.queue, found.id or "(no name)", *times, f"{found.in_flight:,}", known]


def _row(count: rowq.Stats, now: int) -> list[str]:
    counts = [f"{getattr(count, state):,}" for state in _STATES]
    return [count.queue, *counts, ago(count.oldest_ready_at, now), "paused" if count.paused else ""]


def read_pairs(pairs: list[str]) -> SettingsOptions:
    """`name=value` pairs as options of configure, durations in seconds. A schema may be a file, as `schema=@FILE`."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, given = pair.partition("=")
        if not equals:
            raise rowq.InvalidArgument(f"{pair!r} is not a setting: write name=value")
        if name == "schema" and given.startswith("@"):
            given = read_file(Path(given[1:])).decode(errors="surrogateescape")
        holds = parse_setting(name, given)
        options[name] = holds / 1000 if holds is not None and SETTINGS[name].kind == "duration" else holds
    return cast("SettingsOptions", options)


def show_settings(output: Output, queue: str, policy: rowq.Policy, origins: Mapping[str, str]) -> None:
    """Every setting, its effective value and where that comes from; a backoff list also shows how many attempts there are."""
    shown = {name: {"value": getattr(policy, name), "origin": origin} for name, origin in origins.items()}
    if output.json:
        output.document({"queue": queue, "settings": shown})
        return
    columns = (Column("setting", style="cyan"), Column("value", flexible=True), Column("from"))
    output.table(
        columns, ([name, _written(name, shown[each.field]["value"]), shown[each.field]["origin"]] for name, each in SETTINGS.items())
    )


def _written(name: str, given: Any) -> str:
    if given is None:
        return "none"
    if given == 0 and not isinstance(given, bool):
        return "0 (no limit)"
    return shortened(write_setting(name, given)) if isinstance(given, dict) else write_setting(name, given)
