"""Made-up runs: what participants and audit would tell if this had happened. By itself a tale is true; a test bends it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from trust.torture.checker import judge
from trust.torture.checks.evidence import Evidence
from trust.torture.checks.testimony import SETTLES
from trust.torture.checks.verdict import Verdict

VERBS = {event: verb for verb, event in SETTLES.items()}
STATES = {"enqueued": "ready", "nacked": "scheduled", "delivered": "leased", "dead": "dead", "released": "ready", "redriven": "ready"}
LEASE_MS = 2000
STEP_MS = 100


class Tale:
    def __init__(self) -> None:
        self.evidence = Evidence()
        self._calls, self._taken, self._said, self._events = count(1), count(1), count(1), count(1)
        self._us, self._at = 0, 0
        self._holder: dict[int, tuple[int, str]] = {}
        self._attempts: defaultdict[int, int] = defaultdict(int)

    def call(
        self,
        verb: str,
        subject: str | None = None,
        *,
        fate: str = "answered",
        code: str | None = None,
        who: str = "p",
        way: str = "library",
    ) -> int:
        """One after the other, a tenth of a second each."""
        number = next(self._calls)
        self._us += STEP_MS * 1000
        answered = None if fate == "unknown" else self._us + 1000
        self.evidence.put("calls", [(number, who, way, 0, number, verb, subject, self._us, answered, fate, code)])
        return number

    def send(
        self,
        *seqs: int | None,
        queue: str = "plain",
        key: str | None = None,
        group: str | None = None,
        fate: str = "answered",
        id: str | None = None,
        ttl: int | None = None,
        delay: int | None = None,
    ) -> str:
        """A send of so many messages; None where nobody told which one it became. The name of the first. Spans are milliseconds."""
        call = self.call("send" if len(seqs) == 1 else "send_many", queue, fate=fate, code=None if fate == "answered" else "store_busy")
        known = [seq if fate == "answered" else None for seq in seqs]
        rows = [(f"p.0.{call}.{place}", call, place, queue, key, group, id, ttl, delay, seq) for place, seq in enumerate(known)]
        self.evidence.put("sent", rows)
        return f"p.0.{call}.0"

    def delete(self, seq: int, **options: Any) -> None:
        self.evidence.put("deletions", [(self.call("delete", f"m{seq}", **options), f"m{seq}", seq)])

    def audit(
        self, seq: int, *events: str, queue: str = "plain", detail: str | None = None, attempt: int | None = None, at: int = 0
    ) -> None:
        """Lines of the audit alone: "delivered x" is by x."""
        for told in events:
            event, _, who = told.partition(" ")
            self._at = at or self._at + STEP_MS
            self._attempts[seq] += event == "delivered"
            number = attempt if attempt is not None else self._attempts[seq]
            self.evidence.put("events", [(next(self._events), self._at, queue, seq, event, number, who or None, detail)])

    def take(
        self,
        seq: int,
        tag: str,
        *,
        queue: str = "plain",
        name: str = "p.0.1.0",
        until: int | None = None,
        token: int | None = None,
        group: str | None = None,
    ) -> int:
        """The answer to a receive alone."""
        taken, call = next(self._taken), self.call("receive", queue, who="c")
        end = self._at + LEASE_MS if until is None else until
        drawn = taken if token is None else token
        self.evidence.put("taken", [(taken, call, tag, seq, self._attempts[seq] or 1, end, name, group, drawn)])
        self._holder[seq] = (taken, tag)
        return taken

    def say(
        self, seq: int, verb: str, outcome: str = "done", *, taken: int | None = None, until: int | None = None, way: str = "library"
    ) -> None:
        """What the last holder says alone; `taken=0` is a receipt that nobody was given."""
        held = self._holder[seq][0] if taken is None else taken or None
        self.evidence.put("said", [(next(self._said), self.call(verb, who="c", way=way), verb, held, seq, outcome, until)])

    def live(self, seq: int, *events: str, queue: str = "plain", group: str | None = None, name: str = "p.0.1.0") -> None:
        """The audit, and those who say the same: "delivered x" reaches x, and what ends it is said by x."""
        for event in events:
            kind, _, rest = event.partition(" ")
            self.audit(seq, kind if kind == "dead" else event, queue=queue, detail=rest if kind == "dead" else None)
            if kind == "delivered":
                self.take(seq, rest, queue=queue, name=name, group=group)
            elif kind in VERBS:
                self.say(seq, VERBS[kind])

    def put(self, seq: int, state: str, queue: str = "plain", attempts: int | None = None) -> None:
        self.evidence.put("places", [(seq, queue, state, self._attempts[seq] if attempts is None else attempts, None)])

    def body(self, seq: int, name: str) -> None:
        self.evidence.put("bodies", [(seq, name, None)])

    def named(self) -> set[str]:
        """The checks that were violated."""
        return {violation.partition(":")[0] for violation in self.judge().violations}

    def judge(self, *, has_true_clock: bool = True) -> Verdict:
        self.evidence.is_complete()
        return judge(self.evidence, has_true_clock=has_true_clock)


Bend = Callable[[Tale], object]


class Bends:
    """Collects tales that are bent, each with the check that must name it."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def __call__(self, check: str) -> Callable[[Bend], Bend]:
        def add(bend: Bend) -> Bend:
            self.all.append(pytest.param(check, bend, id=bend.__name__))
            return bend

        return add
