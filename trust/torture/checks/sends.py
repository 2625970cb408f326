"""Whatever was sent: an answered send is there, a refused one is not, and one whose answer was lost is there whole, once, or not at all."""

from __future__ import annotations

from collections.abc import Iterator

from trust.torture.checks.evidence import Evidence, Row
from trust.torture.checks.verdict import Verdict

_SEEN = """
CREATE TABLE IF NOT EXISTS seen AS
    SELECT name, seq FROM taken WHERE seq IS NOT NULL UNION SELECT name, seq FROM bodies
"""
"""Which message carried which name: those that were delivered, and those whose bodies are left."""

_QUESTIONS = {
    "an answered send is in the audit": """
        SELECT s.seq, s.name || ' was answered with ' || s.id FROM sent s JOIN calls c ON c.id = s.call
        WHERE c.fate = 'answered' AND NOT EXISTS (SELECT 1 FROM events e WHERE e.seq = s.seq AND e.event = 'enqueued')""",
    "an answer names the message": """
        SELECT s.seq, s.name || ' was answered with ' || s.seq || ' and found in ' || n.seq FROM sent s
        JOIN calls c ON c.id = s.call JOIN seen n ON n.name = s.name WHERE c.fate = 'answered' AND n.seq <> s.seq""",
    "a refused send leaves nothing": """
        SELECT n.seq, s.name || ' was refused (' || c.code || ')' FROM sent s
        JOIN calls c ON c.id = s.call JOIN seen n ON n.name = s.name WHERE c.fate = 'refused'""",
    "a message is there once": """
        SELECT MIN(seq), name || ' is there ' || COUNT(*) || ' times' FROM seen GROUP BY name HAVING COUNT(*) > 1""",
    "nothing is there that nobody sent": "SELECT n.seq, n.name FROM seen n LEFT JOIN sent s ON s.name = n.name WHERE s.name IS NULL",
    "a message without a key is one send": """
        SELECT seq, COUNT(DISTINCT name) || ' names' FROM seen
        WHERE seq NOT IN (SELECT seq FROM events WHERE event = 'replaced') GROUP BY seq HAVING COUNT(DISTINCT name) > 1""",
    "two sends are two messages": """
        SELECT s.seq, COUNT(*) || ' answers name it' FROM sent s JOIN calls c ON c.id = s.call
        WHERE c.fate = 'answered' AND s.seq IS NOT NULL GROUP BY s.seq
        HAVING COUNT(*) > 1 + (SELECT COUNT(*) FROM events e WHERE e.seq = s.seq AND e.event = 'replaced')""",
    "a message is in the queue that it was sent to": """
        SELECT s.seq, s.name || ' was sent to ' || s.queue || ' and is in ' || e.queue FROM sent s
        JOIN events e ON e.seq = s.seq AND e.event = 'enqueued' WHERE e.queue <> s.queue""",
    "a message is received from its queue": """
        SELECT t.seq, t.tag || ' asked for ' || c.subject || ' and got one of ' || e.queue FROM taken t JOIN calls c ON c.id = t.call
        JOIN events e ON e.seq = t.seq AND e.event = 'enqueued' WHERE e.queue <> c.subject""",
    "a message keeps its group": """
        SELECT t.seq, t.name || ' was sent in ' || coalesce(s.group_key, 'none') || ' and came in ' || coalesce(t.group_key, 'none')
        FROM taken t JOIN sent s ON s.name = t.name WHERE t.group_key IS NOT s.group_key""",
    "a message comes from a send": """
        SELECT e.seq, 'nobody sent it' FROM events e
        WHERE e.event = 'enqueued' AND e.seq NOT IN (SELECT seq FROM sent WHERE seq IS NOT NULL) AND e.seq NOT IN (SELECT seq FROM seen)
            AND NOT EXISTS (
                SELECT 1 FROM events l WHERE l.seq = e.seq
                AND l.event IN ('delivered', 'purged', 'deleted', 'replaced', 'superseded', 'expired'))""",
    "no more came than was sent": """
        SELECT NULL, u.count || ' messages came to ' || u.queue || ' unknown to all, and ' || coalesce(m.count, 0) || ' sends may have'
        FROM (
            SELECT queue, COUNT(*) AS count FROM events WHERE event = 'enqueued'
                AND seq NOT IN (SELECT seq FROM sent WHERE seq IS NOT NULL) AND seq NOT IN (SELECT seq FROM seen) GROUP BY queue
        ) AS u LEFT JOIN (
            SELECT s.queue, COUNT(*) AS count FROM sent s JOIN calls c ON c.id = s.call
            WHERE c.fate = 'unknown' AND s.name NOT IN (SELECT name FROM seen) GROUP BY s.queue
        ) AS m USING (queue) WHERE u.count > coalesce(m.count, 0)""",
    "a refused id is not taken": """
        SELECT o.seq, s.name || ' was refused (' || c.code || '), and its id is there' FROM sent s
        JOIN calls c ON c.id = s.call JOIN own_ids o ON o.id = s.id WHERE c.fate = 'refused'""",
    "only a key makes way": """
        SELECT e.seq, 'it was ' || e.event || ' in ' || e.queue FROM events e
        WHERE e.event IN ('replaced', 'superseded') AND e.seq IS NOT NULL
            AND EXISTS (SELECT 1 FROM sent s WHERE s.seq = e.seq AND s.message_key IS NULL)""",
    "a message has one key": """
        SELECT seq, MIN(message_key) || ' and ' || MAX(message_key) FROM sent WHERE seq IS NOT NULL
        GROUP BY seq HAVING COUNT(DISTINCT message_key) > 1""",
    "who is named is known": """
        SELECT NULL, t.tag || ' got ' || t.name || ' under an id that the database does not know' FROM taken t WHERE t.seq IS NULL
        UNION ALL SELECT NULL, c.participant || ' was told that ' || s.verb || ' is done of an id that the database does not know'
            FROM said s JOIN calls c ON c.id = s.call WHERE s.seq IS NULL AND s.outcome = 'done'""",
}
_UNANSWERED = """
SELECT s.call, s.place, n.seq, (SELECT COUNT(*) FROM sent o WHERE o.call = s.call) FROM sent s
JOIN calls c ON c.id = s.call JOIN seen n ON n.name = s.name
WHERE c.fate = 'unknown' AND s.message_key IS NULL AND c.verb = 'send_many' GROUP BY s.call
"""
_REPLACED = """
SELECT d.seq, d.name || ' was delivered, which was sent before ' || newer.name || ' replaced it' FROM taken d
JOIN calls dc ON dc.id = d.call
JOIN sent older ON older.name = d.name AND older.message_key IS NOT NULL JOIN calls oc ON oc.id = older.call AND oc.fate = 'answered'
JOIN sent newer ON newer.seq = d.seq JOIN calls nc ON nc.id = newer.call AND nc.fate = 'answered'
WHERE oc.answered < nc.asked AND nc.answered < dc.asked
"""


def check_sends(evidence: Evidence, verdict: Verdict) -> None:
    evidence.ask(_SEEN)
    evidence.ask("CREATE INDEX IF NOT EXISTS seen_name ON seen (name)")
    evidence.ask("CREATE INDEX IF NOT EXISTS seen_seq ON seen (seq)")
    for check, question in _QUESTIONS.items():
        _accuse(evidence, verdict, check, evidence.ask(question))
    _accuse(evidence, verdict, "a key's newest payload is delivered", evidence.ask(_REPLACED))
    unanswered = list(evidence.ask(_UNANSWERED))
    verdict.checked["a batch whose answer was lost is whole"] += len(unanswered)
    for call, place, seq, size in unanswered:
        there = _written(evidence, call, seq - place, size)
        if there != size:
            verdict.accuse("a batch is whole", f"{there} of {size} messages of call {call}", evidence.story_of(seq))
    for fate, name in (
        ("answered", "a send that was answered is there"),
        ("refused", "a send that was refused is not there"),
        ("unknown", "a send whose answer was lost is there once, or not at all"),
    ):
        (count,) = next(evidence.ask("SELECT COUNT(*) FROM sent s JOIN calls c ON c.id = s.call WHERE c.fate = ?", fate))
        verdict.checked[name] += count
    (names,) = next(evidence.ask("SELECT COUNT(*) FROM seen"))
    verdict.checked["what was received or is left was sent so: once, to that queue, in that group"] += names


def _written(evidence: Evidence, call: int, first: int, size: int) -> int:
    """How many of a batch are there: by the ids that the caller brought, or by seqs, which are drawn together."""
    named, known = next(
        evidence.ask("SELECT COUNT(s.id), COUNT(o.id) FROM sent s LEFT JOIN own_ids o ON o.id = s.id WHERE s.call = ?", call)
    )
    if named == size:
        return int(known)
    (drawn,) = next(evidence.ask("SELECT COUNT(*) FROM events WHERE event = 'enqueued' AND seq BETWEEN ? AND ?", first, first + size - 1))
    return int(drawn)


def _accuse(evidence: Evidence, verdict: Verdict, check: str, rows: Iterator[Row]) -> None:
    for seq, what in rows:
        verdict.accuse(check, what if seq is None else f"message {seq}: {what}", "" if seq is None else evidence.story_of(seq))
