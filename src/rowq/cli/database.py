"""The database itself: doctor, migrate, maintain, maintenance-tasks."""

from __future__ import annotations

from typing import Annotated

import typer

import rowq
from rowq.cli.command import Session
from rowq.cli.output import Column, Failure
from rowq.cli.text import counted, fields
from rowq.connect import install_peq
from rowq.engine.maintenance import TASKS
from rowq.spark.java import examine

Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Run only this task; rowq maintenance-tasks lists them.", show_default=False)
]


def doctor(session: Session) -> None:
    """Check the database; exit code 1 and advice if something is wrong."""
    findings = _findings(session)
    if not session.output.documents(findings):
        for finding in findings:
            session.output.line(f"{'ok   ' if finding.ok else 'WRONG'} {finding.check}: {finding.detail}")
            if finding.advice:
                session.output.line(f"      {finding.advice}")
    wrong = sum(not finding.ok for finding in findings)
    if wrong:
        raise Failure(f"{counted(wrong, 'finding')} to look at", code="unhealthy")


def migrate(session: Session) -> None:
    """Create the tables, or bring them up to this release."""
    before, after = rowq.migrate(session.url)
    sentence = f"the tables are at version {after} already" if before == after else f"version {before} → {after}"
    session.output.answer(sentence, **{"from": before, "to": after})


def maintain(session: Session, name: Name = None) -> None:
    """Run maintenance now: due, expired, retention; or one task of it."""
    if name is not None:
        with session.connect() as broker:
            count = broker.run_maintenance(name)
        session.output.answer(f"{name}: {count:,}", name=name, count=count)
        return
    with session.connect() as broker:
        done = broker.maintain()
    session.output.answer(
        f"{done.due:,} due, {done.lease_expired:,} leases ran out, {done.expired:,} expired, {done.retired:,} retired", **fields(done)
    )


def maintenance_tasks(session: Session) -> None:
    """List the maintenance tasks: what each does, and how often it runs."""
    columns = (Column("task", style="cyan"), Column("every", right=True), Column("what it does", flexible=True))
    session.output.listing(TASKS, columns, lambda each, _: [each.name, _often(each.every_ms), each.summary])


def _often(every_ms: int | None) -> str:
    return "" if every_ms is None else f"{every_ms // 1000:,} s"


def _findings(session: Session) -> list[rowq.Finding]:
    """A database that cannot be opened is a finding too, not an error of the doctor."""
    try:
        with session.connect() as broker:
            return [*broker.doctor(), examine()]
    except (rowq.StoreError, rowq.ServerUnavailable) as error:
        return [rowq.Finding(check="open", ok=False, detail=str(error), advice=None)]


def install(
    session: Session,
    schema: Annotated[
        str, typer.Argument(metavar="SCHEMA", help="The schema to create, and the queue of the same name.", show_default=False)
    ],
) -> None:
    """Create the procedures of PEQ for a queue, in a schema of its name.

    They work on the tables of rowq: any consumer receives what enqueue sends, and dequeue delivers what any producer sent.
    Run it again after an upgrade. It needs a database on PostgreSQL.
    """
    install_peq(session.url, schema)
    session.output.answer(f"the procedures of the queue {schema} are in the schema {schema}", schema=schema, queue=schema)
