"""The life of a message, event by event: who held it when, what ended each delivery, and where that has led."""

from __future__ import annotations

from dataclasses import dataclass

from trust.torture.checks.stories import Event, Said, Story, Taken
from trust.torture.queues import LEASES_MS, QUEUES, most_attempts

SETTLED = frozenset({"acked", "nacked", "released", "rejected", "rescheduled"})
REMOVED = frozenset({"deleted", "purged"})
_CAUSES = {"max_attempts_reached": {"nacked", "lease_expired"}, "rejected": {"rejected"}, "message_expired": {"expired"}}
ROUNDING_MS = 1
"""PEQ tells the end of a lease as a time of day."""


@dataclass
class Holding:
    """One delivery: from its line in the audit to that which ended it."""

    delivered: Event
    taken: Taken | None
    said: list[Said]
    extended: list[Event]
    ended: Event | None = None


class Life:
    """Follows the audit of one message, and notes whatever cannot be."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.state = "none"
        self.attempts = 0
        self.holdings: list[Holding] = []
        self.complaints: list[tuple[str, str]] = []
        self._holding: Holding | None = None
        self._previous: Event | None = None
        self._limit = most_attempts(story.queue)
        self._is_once = QUEUES[story.queue].get("delivery") == "at_most_once"
        self._dies_of_age = QUEUES[story.queue].get("on_expire", "dead") == "dead"
        self._handed = _handed(story)
        for event in story.events:
            self._live(event)
            self._previous = event

    def _live(self, event: Event) -> None:
        kind = event.event
        if self.state == "gone" and not (kind == "deleted" and self._was != "deleted"):
            self._complain("acked stays acked" if self._was == "acked" else "gone is gone", f"{kind} after {self._was}")
        if kind == "enqueued":
            self._expect("none", event)
            self.state = "waiting"
        elif kind == "delivered":
            self._deliver(event)
        elif kind == "extended":
            self._expect("held", event)
            if self._holding is not None:
                self._holding.extended.append(event)
        elif kind in SETTLED or kind == "lease_expired":
            self._end(event)
        elif kind == "dead":
            self._die(event)
        elif kind == "redriven":
            self._expect("dead", event)
            self.state, self.attempts = "waiting", 0
        elif kind == "replaced":
            self._expect("waiting", event)
        elif kind == "expired":
            self._expect("waiting", event)
            self.state = "doomed" if self._dies_of_age else "gone"
        elif kind == "superseded":
            self._expect("waiting", event)
            self.state = "gone"
        elif kind in REMOVED:
            self._release(event)
            self.state = "gone"
        else:
            self._complain("known events only", kind)

    @property
    def _was(self) -> str:
        return "nothing" if self._previous is None else self._previous.event

    def _deliver(self, event: Event) -> None:
        if self.state == "held":
            self._complain("one holder at a time", f"{event.actor} got it while {self._holding and self._holding.delivered.actor} held it")
        elif self.state == "doomed" and self._is_once and self._was == "lease_expired":
            self._complain("at most once", f"{event.actor} got it though somebody may have begun")
        elif self.state in ("dead", "doomed"):
            self._complain("dead is dead", f"{event.actor} got it after {self._was}")
        else:
            self._expect("waiting", event)
        self.attempts += 1
        if event.attempt != self.attempts:
            self._complain("attempts are counted", f"attempt {event.attempt} instead of {self.attempts}")
        if self.attempts > self._limit:
            self._complain("attempts have a limit", f"attempt {self.attempts} of at most {self._limit}")
        taken = self._handed.get(event.id)
        said = [] if taken is None else [said for said in self.story.said if said.taken == taken.id]
        self._holding = Holding(event, taken, said, [])
        self.holdings.append(self._holding)
        self.state = "held"

    def _end(self, event: Event) -> None:
        self._expect("held", event)
        self._release(event)
        if event.event == "released":
            self.attempts -= 1
        elif event.event == "rescheduled":
            self.attempts = 0
        self.state = "gone" if event.event == "acked" else "doomed" if self._is_doomed(event.event) else "waiting"

    def _is_doomed(self, kind: str) -> bool:
        if kind == "rejected" or (kind == "lease_expired" and self._is_once):
            return True
        return kind in ("nacked", "lease_expired") and self.attempts >= self._limit

    def _release(self, event: Event) -> None:
        if self._holding is not None:
            self._holding.ended = event
            self._holding = None

    def _die(self, event: Event) -> None:
        """Of what was just told, and of nothing else."""
        reason = (event.detail or "").partition(":")[0]
        if self.state != "doomed" or self._was not in _CAUSES.get(reason, ()):
            self._complain("death has a cause", f"dead of {reason} after {self._was}, at {self.attempts} of {self._limit} attempts")
        self.state = "dead"

    def _expect(self, state: str, event: Event) -> None:
        if self.state not in (state, "gone"):
            self._complain("events follow from each other", f"{event.event} of a message that is {self.state}, not {state}")

    def _complain(self, check: str, what: str) -> None:
        self.complaints.append((check, what))


def _handed(story: Story) -> dict[int, Taken]:
    """Which line of the audit is which delivery. A receive may have been tried again under its name: the deliveries of its first try
    have reached nobody, and those of the last are known by when their leases end."""
    found: dict[int, Taken] = {}
    for taken in story.taken:
        lines = [event for event in story.events if event.event == "delivered" and event.actor == taken.tag and event.id not in found]
        fitting = [event for event in lines if any(abs(event.at + lease - taken.until) <= ROUNDING_MS for lease in LEASES_MS)]
        if lines:
            found[(fitting or lines)[-1].id] = taken
    return found
