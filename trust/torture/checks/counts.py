"""Counts add up: at moments of the run, at the end, and against what operators did."""

from __future__ import annotations

from trust.torture.checks.evidence import Evidence
from trust.torture.checks.verdict import Verdict

_ASKED = {
    "purged": "queue IN (SELECT subject FROM calls WHERE verb = 'purge' AND fate <> 'refused')",
    "redriven": "queue IN (SELECT subject FROM calls WHERE verb = 'redrive' AND fate <> 'refused')",
    "deleted": "seq IN (SELECT d.seq FROM deletions d JOIN calls c ON c.id = d.call WHERE d.seq IS NOT NULL AND c.fate <> 'refused')",
}
_TOLD = {
    "deleted is deleted": """
        SELECT t.seq, t.tag || ' got it after somebody was told that it is deleted' FROM deletions d JOIN calls c ON c.id = d.call
        JOIN taken t ON t.seq = d.seq JOIN calls r ON r.id = t.call WHERE c.fate = 'answered' AND r.asked > c.answered""",
    # Over HTTP the second try may have found it gone, in whatever way.
    "an answered deletion is in the audit": """
        SELECT d.seq, c.participant || ' was told that it is deleted' FROM deletions d JOIN calls c ON c.id = d.call
        WHERE c.fate = 'answered' AND c.way <> 'http' AND d.seq IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM events e WHERE e.seq = d.seq AND e.event = 'deleted')""",
    "a purge takes what was there": """
        SELECT e.seq, 'it was purged, and every purge had been answered before it was sent' FROM events e
        JOIN sent s ON s.seq = e.seq JOIN calls c ON c.id = s.call
        WHERE e.event = 'purged' AND NOT EXISTS (
            SELECT 1 FROM calls p WHERE p.verb = 'purge' AND p.subject = e.queue AND p.fate <> 'refused'
                AND (p.fate = 'unknown' OR p.answered > c.asked))""",
}
"""What operators were told: questions that nothing may answer."""
_STATES = """
SELECT s.queue, s.state, s.count, coalesce(p.count, 0) FROM stats s LEFT JOIN (
    SELECT queue, COUNT(*) AS count,
        CASE WHEN state IN ('ready', 'scheduled', 'leased', 'blocked', 'dead') THEN state ELSE 'finished' END AS state
    FROM places GROUP BY queue, 3
) AS p USING (queue, state)
"""


def check_counts(evidence: Evidence, verdict: Verdict) -> None:
    counts = list(evidence.ask("SELECT call, queue, here, came FROM counts"))
    verdict.checked["at a moment, a queue holds what came less what left"] += len(counts)
    for call, queue, here, came in counts:
        if here != came:
            verdict.accuse("counts add up", f"{queue} held {here} messages where {came} had come and not left, in call {call}")
    for queue, state, told, there in evidence.ask(_STATES):
        verdict.checked["stats tell how many rows there are"] += 1
        if told != there:
            verdict.accuse("counts add up", f"stats tell of {told} messages {state} in {queue}, and {there} are there")
    _check_operators(evidence, verdict)
    (errors,) = next(evidence.ask("SELECT COUNT(*) FROM calls WHERE code IS NOT NULL"))
    verdict.checked["an error has a name"] += errors
    for participant, verb, what in evidence.ask("SELECT c.participant, c.verb, r.what FROM crashes r JOIN calls c ON c.id = r.call"):
        verdict.accuse("errors have a name", f"{participant} called {verb} and heard {what}")


def _check_operators(evidence: Evidence, verdict: Verdict) -> None:
    """What an operator's action did to a message, an operator has asked for; and what operators were told is so."""
    for event, asked in _ASKED.items():
        (count,) = next(evidence.ask("SELECT COUNT(*) FROM events WHERE event = ? AND seq IS NOT NULL", event))
        verdict.checked["what was purged, deleted or redriven, an operator asked for"] += count
        question = f"SELECT seq, queue FROM events WHERE event = ? AND seq IS NOT NULL AND NOT ({asked})"
        for seq, queue in list(evidence.ask(question, event)):
            verdict.accuse("only operators remove", f"message {seq} of {queue} was {event}, and nobody asked", evidence.story_of(seq))
    for check, question in _TOLD.items():
        for seq, what in list(evidence.ask(question)):
            verdict.accuse(check, f"message {seq}: {what}", evidence.story_of(seq))
    (answered,) = next(evidence.ask("SELECT COUNT(*) FROM deletions d JOIN calls c ON c.id = d.call WHERE c.fate = 'answered'"))
    verdict.checked["what was deleted is delivered to nobody"] += answered
