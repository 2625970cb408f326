"""Queues into another database: copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from rowq.cli.command import Session, actor
from rowq.cli.output import Column
from rowq.cli.parameter import Yes, duration_option
from rowq.cli.terminal import bar, confirm
from rowq.cli.text import counted
from rowq.model.message import Stats
from rowq.transfer.opening import Survey, open_copier, survey
from rowq.transfer.report import Counts, QueueReport

_STATES = Counts.__struct_fields__

From = Annotated[str, typer.Argument(metavar="FROM", help="The URL of the database that has the queues.", show_default=False)]
To = Annotated[str, typer.Argument(metavar="TO", help="The URL of the database to copy to; its tables are created.", show_default=False)]


def copy(
    session: Session,
    source: From,
    target: To,
    queue: Annotated[list[str] | None, typer.Option("--queue", help="Only this queue; may be repeated. Default: all.")] = None,
    wait_for_leases: Annotated[
        float | None, duration_option("--wait-for-leases", "Let consumers finish first, for at most this long.")
    ] = None,
    no_audit: Annotated[bool, typer.Option("--no-audit", help="Do not copy the audit.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="At the end, delete from FROM what has arrived at TO, after asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what there is to copy.")] = False,
    yes: Yes = False,
) -> None:
    """Copy queues into another database, with all their data.

    The queues of FROM are paused, and stay paused. Messages keep their ids, order, state and attempts. A leased
    message arrives as ready: a consumer that settles it at FROM afterwards has processed it in vain. At TO the
    queues are paused until the copy is complete.

    Run an interrupted copy again to continue it. Messages sent to FROM meanwhile are copied by the next run.
    """
    queues = queue or None
    if dry_run:
        _show_survey(session, survey(source, target, queues))
        return
    if remove:
        confirm("Delete at FROM what has arrived at TO?", yes=yes)
    with open_copier(source, target, queues, actor=actor(), with_audit=not no_audit) as copier:
        leases = copier.begin(wait_for_leases or 0.0)
        for stage in copier.stages():
            with bar(stage.title, stage.total) as advance:
                stage.run(advance)
        reports = copier.finish()
        if remove:
            with bar("remove", sum(sum(report.source.sums) for report in reports if report.source)) as advance:
                reports = copier.remove(advance)
    _show(session, reports, leases, removed=remove)


def _show_survey(session: Session, found: Survey) -> None:
    total = sum(stats.depth + stats.dead + stats.finished for stats in found.queues)
    if session.output.json:
        queues = [{"queue": stats.queue, **_by_state(stats)} for stats in found.queues]
        session.output.document({"messages": total, "queues": queues, "target": found.target})
        return
    session.output.table(_columns("queue"), ([stats.queue, *_cells(stats)] for stats in found.queues))
    session.output.line(f"{counted(total, 'message')} to copy; nothing was changed")
    if found.target is not None:
        session.output.line(f"TO could not be read: {found.target}")


def _show(session: Session, reports: Sequence[QueueReport], leases: int, *, removed: bool) -> None:
    copied, gone, later = (sum(getattr(report, name) for report in reports) for name in ("copied", "removed", "later"))
    differing = [report for report in reports if not report.agrees]
    if session.output.json:
        queues = [{**msgspec.to_builtins(report), "agrees": report.agrees} for report in reports]
        document: dict[str, Any] = {"copied": copied, "removed": gone, "later": later, "leases": leases, "agrees": not differing}
        session.output.document({**document, "queues": queues})
        return
    session.output.table(_columns("queue", "copied"), (_row(report) for report in reports))
    session.output.line(_sentence(reports, copied, differ=bool(differing)))
    for report in differing:
        here, there = _told(report.source), _told(report.target)
        session.output.line(f"{report.queue}: {here} at FROM, {there} at TO; each of FROM was looked up at TO")
    if leases:
        session.output.line(f"{counted(leases, 'lease')} ran on at FROM: what is settled there from now on is delivered again at TO")
    if later:
        session.output.line(f"{counted(later, 'message')} came to FROM meanwhile: stop the producers there, and run the copy again")
    if removed:
        session.output.line(f"{counted(gone, 'message')} deleted at FROM")


def _sentence(reports: Sequence[QueueReport], copied: int, *, differ: bool) -> str:
    if any(report.source is not None for report in reports):
        return f"{counted(copied, 'message')} copied; the counts {'differ' if differ else 'agree'}"
    return f"{counted(copied, 'message')} copied" if copied else "nothing new: all of it had arrived before"


def _columns(*first: str) -> list[Column]:
    return [Column(name, right=name != "queue", style="cyan" if name == "queue" else "") for name in (*first, *_STATES)]


def _row(report: QueueReport) -> list[str]:
    counts = [""] * len(_STATES) if report.target is None else _cells(report.target)
    return [report.queue, f"{report.copied:,}", *counts]


def _cells(counts: Stats | Counts) -> list[str]:
    return [f"{count:,}" for count in _by_state(counts).values()]


def _by_state(counts: Stats | Counts) -> dict[str, int]:
    return {state: getattr(counts, state) for state in _STATES}


def _told(counts: Counts | None) -> str:
    waiting, dead, finished = (0, 0, 0) if counts is None else counts.sums
    return f"{waiting:,} to be done, {dead:,} dead, {finished:,} finished"
