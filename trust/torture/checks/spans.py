"""Spans of time that a sender has named: no message is delivered before its delay is over, and none expires before its TTL."""

from __future__ import annotations

from trust.torture.checks.evidence import Evidence
from trust.torture.checks.verdict import Verdict
from trust.torture.queues import ttl_ms_of

SLACK_MS = 1_000
"""By how much two hosts may differ about the database's time."""

_EXPIRED = """
SELECT e.seq, e.queue, e.at - b.at, COUNT(s.name), COUNT(s.ttl_ms), MIN(s.ttl_ms) FROM events e
JOIN events b ON b.seq = e.seq AND b.event = 'enqueued' LEFT JOIN sent s ON s.seq = e.seq
WHERE e.event = 'expired' GROUP BY e.id
"""
_DELAYED = """
SELECT s.seq, s.delay_ms, (MIN(r.answered) - c.asked) / 1000 FROM sent s JOIN calls c ON c.id = s.call
JOIN taken t ON t.seq = s.seq JOIN calls r ON r.id = t.call
WHERE s.delay_ms > 0 AND s.message_key IS NULL GROUP BY s.seq
"""
"""By the participants' own watches: a line of the audit may have waited with the transaction that wrote it. What a key has replaced goes by
another delay."""


def check_spans(evidence: Evidence, verdict: Verdict, *, has_true_clock: bool) -> None:
    """`has_true_clock`: nobody has set the clock that messages go by, so what it tells of spans is so."""
    for seq, queue, age, sends, limited, least in list(evidence.ask(_EXPIRED)):
        if not sends:
            continue  # its send was never answered: nobody knows what it asked for
        verdict.checked["what expired had a TTL, and it was over"] += 1
        general = ttl_ms_of(queue)
        spans = [span for span in (least, general if limited < sends else None) if span is not None]
        if not spans:
            verdict.accuse("only a TTL lets expire", f"message {seq} of {queue} expired, and had none", evidence.story_of(seq))
        elif has_true_clock and age < min(spans) - SLACK_MS:
            verdict.accuse("a TTL is kept", f"message {seq} expired after {age} of {min(spans)} ms", evidence.story_of(seq))
    for seq, delay, waited in list(evidence.ask(_DELAYED)) if has_true_clock else ():
        verdict.checked["what was delayed came later"] += 1
        if waited < delay - SLACK_MS:
            verdict.accuse("a delay is kept", f"message {seq} was delivered after {waited} of {delay} ms", evidence.story_of(seq))
