"""Whether rowq has kept its promises: what every participant wrote down, against what the database says of itself."""

from __future__ import annotations

from pathlib import Path

from tests.support.tables import faults_of
from trust.torture.checks import record, testimony
from trust.torture.checks.counts import check_counts
from trust.torture.checks.evidence import Evidence
from trust.torture.checks.groups import check_groups
from trust.torture.checks.messages import check_messages
from trust.torture.checks.sends import check_sends
from trust.torture.checks.spans import check_spans
from trust.torture.checks.verdict import Verdict
from trust.torture.logbook import ANSWERS

__all__ = ["Verdict", "check"]

EVIDENCE = "evidence.db"


def check(folder: Path, url: str) -> Verdict:
    """Reads every `*.logbook` in the folder, and all of the database at `url` (that of the database itself, not of a server).

    Nobody may use the database meanwhile: participants and servers have ended, and everything was drained before. What was found is kept
    in the folder, in `evidence.db`.
    """
    (folder / EVIDENCE).unlink(missing_ok=True)
    evidence = Evidence(folder / EVIDENCE)
    try:
        testimony.hear(evidence, folder)
        record.read(evidence, url)
        evidence.is_complete()
        verdict = judge(evidence, has_true_clock=not url.startswith("sqlite"))
    finally:
        evidence.close()
    for fault, seqs in faults_of(url).items():
        verdict.accuse("the tables fit together", f"{fault}: {seqs[:10]}")
    verdict.checked["the tables fit together"] += 1
    return verdict


def judge(evidence: Evidence, *, has_true_clock: bool) -> Verdict:
    """`has_true_clock`: the clock that leases go by was not set during the run."""
    verdict = Verdict()
    check_messages(evidence, verdict, has_true_clock=has_true_clock)
    check_sends(evidence, verdict)
    check_groups(evidence, verdict)
    check_counts(evidence, verdict)
    check_spans(evidence, verdict, has_true_clock=has_true_clock)
    _count(evidence, verdict)
    return verdict


def _count(evidence: Evidence, verdict: Verdict) -> None:
    answered = f"fate = 'answered' OR code IN ({', '.join(repr(code) for code in sorted(ANSWERS))})"
    for way, verb, count in evidence.ask(f"SELECT way, verb, COUNT(*) FROM calls WHERE {answered} GROUP BY way, verb"):
        verdict.operations[way, verb] = count
    for code, count in evidence.ask("SELECT code, COUNT(*) FROM calls WHERE code IS NOT NULL GROUP BY code"):
        verdict.errors[code] = count
    (verdict.messages,) = next(evidence.ask("SELECT COUNT(*) FROM events WHERE event = 'enqueued'"))
