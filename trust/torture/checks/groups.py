"""Groups: one message at a time, in the order of sending."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from trust.torture.checks.evidence import Evidence
from trust.torture.checks.verdict import Verdict

_JOINED = frozenset({"enqueued", "redriven"})
_LEFT = frozenset({"acked", "dead", "superseded", "purged", "deleted"})
_MEMBERS = """
CREATE TABLE IF NOT EXISTS members AS
SELECT seq, MIN(group_key) AS group_key FROM (
    SELECT seq, group_key FROM sent WHERE group_key IS NOT NULL AND seq IS NOT NULL
    UNION SELECT seq, group_key FROM taken WHERE group_key IS NOT NULL AND seq IS NOT NULL
    UNION SELECT seq, group_key FROM places WHERE group_key IS NOT NULL
    UNION SELECT seq, group_key FROM bodies WHERE group_key IS NOT NULL
) GROUP BY seq
"""
_EVENTS = """
SELECT m.group_key, e.seq, e.event FROM members m JOIN events e ON e.seq = m.seq
WHERE e.event NOT IN ('extended', 'replaced', 'expired') ORDER BY e.id
"""
_SENDS = """
SELECT s.group_key, c.asked, c.answered, s.seq, s.name FROM sent s JOIN calls c ON c.id = s.call
WHERE s.group_key IS NOT NULL AND s.seq IS NOT NULL AND c.fate = 'answered' ORDER BY c.asked, s.call, s.place
"""


@dataclass
class Line:
    """A group at a moment: who stands in it, by seq and by how it came; and who is with a consumer."""

    members: dict[int, str] = field(default_factory=dict)
    held: int | None = None


def check_groups(evidence: Evidence, verdict: Verdict) -> None:
    evidence.ask(_MEMBERS)
    verdict.checked.update({"a group is delivered one at a time, in order": 0, "a group stands in the order of sending": 0})
    lines: defaultdict[str, Line] = defaultdict(Line)
    for group, seq, event in evidence.ask(_EVENTS):
        line = lines[group]
        if event == "delivered":
            verdict.checked["a group is delivered one at a time, in order"] += 1
            if (complaint := _pass_over(line, seq)) is not None:
                verdict.accuse("groups are in order", f"message {seq} of {group}: {complaint}", evidence.story_of(seq))
            line.held = seq
            continue
        line.held = None if line.held == seq else line.held
        if event in _JOINED:
            line.members[seq] = event
        elif event in _LEFT:
            line.members.pop(seq, None)
    _check_sends(evidence, verdict)


def _pass_over(line: Line, seq: int) -> str | None:
    """Whose turn it is instead. A dead letter that was redriven goes before those that wait, and after who is with a consumer: it may
    come early and late, but never beside another."""
    if line.held is not None and line.held != seq:
        return f"{line.held} is still with a consumer"
    earlier = [other for other, joined in line.members.items() if other < seq and joined == "enqueued"]
    return f"{min(earlier)} was sent before" if earlier else None


def _check_sends(evidence: Evidence, verdict: Verdict) -> None:
    """What was answered before another send was asked stands before it; and so does what is before it in a batch."""
    sends: defaultdict[str, list[tuple[int, int, int, str]]] = defaultdict(list)
    for group, asked, answered, seq, name in evidence.ask(_SENDS):
        sends[group].append((asked, answered, seq, name))
    for group, asked in sends.items():
        answered = sorted(asked, key=lambda send: send[1])
        latest, done, place = -1, 0, (-1, -1)
        for at, _, seq, name in asked:
            while answered[done][1] < at:
                latest, done = max(latest, answered[done][2]), done + 1
            verdict.checked["a group stands in the order of sending"] += 1
            if seq < latest or (place[0] == at and seq < place[1]):
                verdict.accuse(
                    "groups are in order", f"{name} of {group} got {seq}, behind {max(latest, place[1])}", evidence.story_of(seq)
                )
            place = (at, seq)
