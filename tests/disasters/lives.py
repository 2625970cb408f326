"""The short lives that messages live under a fault: the calls of each, and what is to be seen of a message after each call."""

from __future__ import annotations

from typing import Literal, NamedTuple

Class = Literal["send", "decision", "handling"]
"""What a promise is made for: sends; decisions, which nobody wants to take twice; and the handling that is repeated if need be."""


class Step(NamedTuple):
    kind: Class
    events: tuple[str, ...]
    """In the audit."""
    state: str | None
    """Of the message, after it; None if it is gone."""


STEPS = {
    "send": Step("send", ("enqueued",), "ready"),
    "receive": Step("handling", ("delivered",), "leased"),
    "receive at most once": Step("decision", ("delivered",), "leased"),
    "ack": Step("handling", ("acked",), None),
    "nack": Step("handling", ("nacked",), "scheduled"),
    "extend": Step("handling", ("extended",), "leased"),
    "reject": Step("decision", ("rejected", "dead"), "dead"),
    "reschedule": Step("decision", ("rescheduled",), "scheduled"),
    "redrive": Step("decision", ("redriven",), "ready"),
    "delete": Step("decision", ("deleted",), None),
}

LIVES = {
    "sent": ("send",),
    "received": ("send", "receive"),
    "strict": ("send", "receive at most once"),
    "acked": ("send", "receive", "ack"),
    "nacked": ("send", "receive", "nack"),
    "extended": ("send", "receive", "extend"),
    "rejected": ("send", "receive", "reject"),
    "rescheduled": ("send", "receive", "reschedule"),
    "redriven": ("send", "receive", "reject", "redrive", "delete"),
    "deleted": ("send", "delete"),
}

HANDLED = [life for life, steps in LIVES.items() if all(STEPS[step].kind == "handling" for step in steps[1:]) and len(steps) > 1]
"""Lives that go on without a call that must be on disk."""
