"""The database itself: doctor, migrate, sweep."""

from __future__ import annotations

import rowq
from rowq.cli.command import Session
from rowq.cli.document import fields
from rowq.cli.failure import Failure
from rowq.cli.text import counted
from rowq.spark.java import examine


def doctor(session: Session) -> None:
    """Check the database; exit code 1 and advice if something is wrong."""
    findings = _findings(session)
    if session.output.json:
        session.output.document([fields(finding) for finding in findings])
    else:
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


def sweep(session: Session) -> None:
    """Do at once what time made necessary: due, expired, retention."""
    with session.connect() as broker:
        swept = broker.sweep()
    session.output.answer(
        f"{swept.due:,} due, {swept.lease_expired:,} leases ran out, {swept.expired:,} expired, {swept.retired:,} retired", **fields(swept)
    )


def _findings(session: Session) -> list[rowq.Finding]:
    """A database that cannot be opened is a finding too, not an error of the doctor."""
    try:
        with session.connect() as broker:
            return [*broker.doctor(), examine()]
    except (rowq.StoreError, rowq.ServerUnavailable) as error:
        return [rowq.Finding(check="open", ok=False, detail=str(error), advice=None)]
