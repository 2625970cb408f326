"""What the participants wrote down, into the evidence."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from rowq.ids import origin_of
from trust.torture.checks.evidence import Evidence, Row
from trust.torture.logbook import Line, logbooks_in, read_logbook

_UNKNOWN = frozenset({"outcome_unknown"})
_FLUSHED = 20_000


def hear(evidence: Evidence, folder: Path) -> None:
    """Every logbook of the folder."""
    witness = Witness(evidence)
    for participant, path in logbooks_in(folder).items():
        witness.hear(participant, path)


class Call(NamedTuple):
    """`told` is None where it was not answered, or refused."""

    id: int
    name: str
    thread: int
    number: int
    fate: str
    is_many: bool
    what: list[Any]
    told: list[Any] | None


class Witness:
    """Reads logbooks, and gives each call, delivery and settle a number of its own."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._calls = count(1)
        self._taken = count(1)
        self._said = count(1)
        self._rows: dict[str, list[Row]] = {}

    def hear(self, participant: str, path: Path) -> None:
        self._participant, self._way = participant, ""
        self._open: dict[int, Line] = {}
        """thread → what it has asked, and nobody has answered yet."""
        self._deliveries: dict[tuple[int, int, int], tuple[int, int | str]] = {}
        """(thread, call, place) → the number of the delivery, and its message."""
        for line in read_logbook(path):
            if line[0] == "role":
                self._way = line[3]
            elif line[0] == "asked":
                self._open[line[2]] = line
            else:
                self._end(self._open.pop(line[2]), line)
        for asked in self._open.values():
            self._end(asked, None)
        self._flush()

    def _end(self, asked: Line, ending: Line | None) -> None:
        _, asked_at, thread, number, verb, *what = asked
        fate, code = fate_of(ending)
        told = ending[4:] if ending is not None and ending[0] == "answered" else None
        call = Call(next(self._calls), f"{self._participant}.{thread}.{number}", thread, number, fate, verb.endswith("_many"), what, told)
        subject = what[0] if what and isinstance(what[0], str) else None
        answered_at = None if ending is None else ending[1]
        self._put("calls", (call.id, self._participant, self._way, thread, number, verb, subject, asked_at, answered_at, fate, code))
        if ending is not None and ending[0] == "crashed":
            self._put("crashes", (call.id, ending[4]))
        match verb.removesuffix("_many"):
            case "send":
                self._send(call)
            case "receive":
                self._receive(call)
            case "delete":
                self._put("deletions", (call.id, what[0], message_of(what[0])))
            case "count" if told is not None:
                self._put("counts", *((call.id, *counted) for counted in told[0]))
            case settle if settle in SETTLES:
                self._settle(call, settle)

    def _send(self, call: Call) -> None:
        queue, drafts = call.what
        for place, draft in enumerate(drafts):
            key, group, own_id, ttl, delay = draft or (None,) * 5
            id = own_id if call.told is None else call.told[0][place]
            seq = None if call.told is None or id is None else message_of(id)
            self._put("sent", (f"{call.name}.{place}", call.id, place, queue, key, group, id, ttl, delay, seq))

    def _receive(self, call: Call) -> None:
        for place, (message, attempt, until, name, group, token) in enumerate(call.told[0] if call.told is not None else ()):
            taken, seq = next(self._taken), message_of(message)
            self._deliveries[call.thread, call.number, place] = (taken, seq)
            self._put("taken", (taken, call.id, call.name, seq, attempt, until, name, group, token))

    def _settle(self, call: Call, verb: str) -> None:
        (references,) = call.what
        outcomes = call.told[0] if call.told is not None else [call.fate] * len(references)
        until = call.told[1] if call.told is not None and len(call.told) > 1 else None
        for reference, outcome in zip(references, outcomes, strict=True):
            taken, seq = self._deliveries[call.thread, *reference] if isinstance(reference, list) else (None, message_of(reference))
            self._put("said", (next(self._said), call.id, verb, taken, seq, self._outcome(call, outcome), until))

    def _outcome(self, call: Call, told: str) -> str:
        """Over HTTP many settles are said again when the answer is lost, and told is the second answer: the first may have been "done"."""
        if told in ("done", "unknown"):
            return told
        return "unknown" if self._way == "http" and call.told is not None and call.is_many else "refused"

    def _put(self, table: str, *new: Row) -> None:
        rows = self._rows.setdefault(table, [])
        rows.extend(new)
        if len(rows) >= _FLUSHED:
            self._evidence.put(table, rows)
            rows.clear()

    def _flush(self) -> None:
        for table, rows in self._rows.items():
            self._evidence.put(table, rows)
            rows.clear()


SETTLES = {"ack": "acked", "nack": "nacked", "release": "released", "reject": "rejected", "reschedule": "rescheduled", "extend": "extended"}
"""What a consumer says → what the audit makes of it."""


def fate_of(ending: Line | None) -> tuple[str, str | None]:
    """Every error but one promises that nothing was done. The caller's own driver promises nothing."""
    if ending is None:
        return "unknown", None
    if ending[0] == "answered":
        return "answered", None
    code = ending[4] if ending[0] == "failed" else "crashed"
    return "unknown" if code in _UNKNOWN or code == "crashed" or code.startswith("driver:") else "refused", code


def message_of(id: int | str) -> int | str:
    """The seq, where an id tells it; else the id, until the database has told whose it is."""
    if isinstance(id, int):
        return id
    origin = origin_of(id)
    return id if origin is None else origin.seq
