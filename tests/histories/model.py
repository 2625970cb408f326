"""What a queue must do, as plain rules over a dict of messages. Times are milliseconds; no SQL, no batches, no threads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from rowq import ManualClock, Policy
from tests.histories.entry import Entry

WAITING = ("blocked", "scheduled", "ready")


@dataclass
class Model:
    policy: Policy
    clock: ManualClock
    entries: dict[str, Entry] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _leases: count[int] = field(default_factory=lambda: count(1))

    @property
    def now(self) -> int:
        return self.clock.now()

    def of(self, *states: str) -> list[Entry]:
        """The messages in these states, in the order of sending."""
        return sorted([entry for entry in self.entries.values() if entry.state in states], key=lambda entry: entry.number)

    def ready(self) -> list[Entry]:
        """In the order of delivery."""
        return sorted(self.of("ready"), key=lambda entry: (-entry.priority, entry.position))

    # Sending

    def twin(self, key: str | None) -> Entry | None:
        """The message that waits under a key; one that is past its time no longer does."""
        return next((entry for entry in self._under(key) if not entry.is_ended(self.policy, self.now)), None)

    def is_full_for(self, keys: list[str | None]) -> bool:
        new = keys.count(None) + len({key for key in keys if key and not self._under(key)})
        return bool(self.policy.max_depth) and new > 0 and len(self._members()) + new > self.policy.max_depth

    def send(self, id: str, payload: Any, *, delay: int = 0, **options: Any) -> None:
        number = next(self._numbers)
        self._expire(self._under(options.get("key")))
        twin = self.twin(options.get("key"))
        if twin:
            twin.payload = payload
            if self.policy.refresh_ttl:
                twin.expires_at = twin.expiry(self.policy, self.now, self.now if twin.state == "ready" else twin.due or 0)
            return
        entry = self.entries[id] = Entry(id, payload, number, **options)
        entry.expires_at = entry.expiry(self.policy, self.now, self.now + delay)
        self._wait(entry, self.now + delay)
        entry.position = number

    # Receiving

    def receive(self, most: int, lease: int | None) -> list[Entry]:
        """Due messages and expired leases are taken up first; what is past its time is never handed out."""
        self._take_up(self.now)
        handed: list[Entry] = []
        while chosen := self.ready()[: most - len(handed)]:
            ended = [entry for entry in chosen if entry.is_ended(self.policy, self.now)]
            handed += [self._hand_out(entry, lease) for entry in chosen if entry not in ended]
            if not ended:
                break
            self._expire(ended)
        return handed

    def receive_dead(self, most: int, lease: int | None) -> list[Entry]:
        self._take_up(self.now)
        ripe = [entry for entry in self.of("dead") if entry.due is not None and entry.due <= self.now]
        return [self._hand_out(entry, lease) for entry in sorted(ripe, key=lambda entry: entry.due or 0)[:most]]

    def is_current(self, entry: Entry | None, lease: int) -> bool:
        return entry is not None and entry.state == "leased" and entry.lease == lease

    # Settling

    def ack(self, entry: Entry) -> None:
        self._finish(entry, "acked", self.policy.keep)
        self._call_up()

    def nack(self, entry: Entry, delay: int | None = None, counts: bool = True) -> None:
        if entry.reason is None and entry.is_late(self.policy, self.now):
            self._exhaust(entry, "deadline_exceeded")
        elif counts and entry.is_used_up(self.policy):
            self._exhaust(entry, "max_attempts_reached")
        else:
            entry.tries -= not counts
            if delay is None:
                delay = entry.retry_delay(self.policy) if counts else 0
            self._come_back(entry, delay)
        self._call_up()

    def reject(self, entry: Entry) -> None:
        self._die(entry, entry.reason or "rejected", self.now if entry.reason is None else None)
        self._call_up()

    def reschedule(self, entry: Entry, delay: int) -> None:
        entry.tries = 0
        entry.expires_at = entry.expires_at and entry.expires_at + delay
        self._come_back(entry, delay)
        self._call_up()

    def extend(self, entry: Entry, lease: int) -> None:
        entry.lease_until = entry.lease_end(self.now, lease)

    # Operating

    def redrive(self, chosen: Iterable[Entry]) -> None:
        for entry in chosen:
            entry.attempts = entry.redeliveries = 0
            entry.reason = None
            entry.expires_at = entry.expiry(self.policy, self.now, self.now)
            self._wait(entry, self.now)
        self._call_up()

    def purge(self, *states: str) -> int:
        gone = 0
        for state in [state for state in (*WAITING, "leased", "dead", "finished") if state in states]:
            for entry in self.of("leased", "dead") if state == "dead" else self.of(state):
                if entry.state != "leased" or (entry.reason is None) == (state == "leased"):  # who was received dead is so still
                    self._finish(entry, "purged", "none")
                    gone += 1
            self._call_up()
        return gone

    def delete(self, entry: Entry) -> None:
        self._finish(entry, "deleted", "none")
        self._call_up()

    def maintain(self) -> None:
        """Leases that ran out less than a second ago are left alone: their consumers may only be a little late."""
        self._take_up(self.now - 1_000)
        self._expire(self.of(*WAITING))

    # What several verbs come to

    def _come_back(self, entry: Entry, delay: int) -> None:
        if entry.reason is None:
            self._wait(entry, self.now + delay)
        else:
            self._die(entry, entry.reason, self.now + delay)

    def _wait(self, entry: Entry, due: int) -> None:
        """Into the queue, or back: behind the head of its group, and under its key only if nobody newer waits there."""
        self._expire(self._under(entry.key))
        twins = self._under(entry.key)
        if any(twin.number > entry.number for twin in twins):
            self._finish(entry, "superseded", self.policy.keep)
            return
        must_block = entry.group is not None and not (self._stays_first(entry) if entry.state == "leased" else self._comes_first(entry))
        entry.due = due
        entry.state = "blocked" if must_block else "scheduled" if due > self.now else "ready"
        self._place(entry)
        for twin in twins:
            self._finish(twin, "superseded", self.policy.keep)

    def _stays_first(self, entry: Entry) -> bool:
        """A head that comes back steps back behind an older one, which was redriven meanwhile."""
        return all(other.number > entry.number for other in self._members() if other.group == entry.group and other is not entry)

    def _comes_first(self, entry: Entry) -> bool:
        """Order in a group is by sending: a younger head that only waits steps back, one that is leased has its turn."""
        members = [other for other in self._members() if other.group == entry.group]
        head = next((other for other in members if other.state != "blocked"), None)
        if head and head.number > entry.number and head.state != "leased":
            head.due = head.due if head.state == "scheduled" else self.now
            head.state = "blocked"
            return True
        return not members

    def _call_up(self) -> None:
        """Where a group has no head, the first that was sent is the next."""
        for entry in self.of("blocked"):
            if all(other.state == "blocked" for other in self._members() if other.group == entry.group):
                entry.state = "scheduled" if (entry.due or 0) > self.now else "ready"
                entry.position = entry.number

    def _take_up(self, expired_before: int) -> None:
        for entry in sorted(self.of("scheduled"), key=lambda entry: entry.due or 0):
            if (entry.due or 0) <= self.now:
                entry.state = "ready"
                self._place(entry)
        for entry in self.of("leased"):
            if entry.lease_until <= expired_before:
                self._lose_lease(entry)

    def _lose_lease(self, entry: Entry) -> None:
        if entry.reason is None and self.policy.delivery == "at_most_once":
            self._exhaust(entry, "deadline_exceeded" if entry.is_late(self.policy, self.now) else "max_attempts_reached")
            self._call_up()
        else:
            self.nack(entry, None if self.policy.lease_expiry_backoff == "nack" else 0, self.policy.count_lease_expiry)

    def _expire(self, entries: list[Entry]) -> None:
        for entry in [entry for entry in entries if entry.is_ended(self.policy, self.now)]:
            if entry.is_late(self.policy, self.now):
                self._exhaust(entry, "deadline_exceeded")
            elif self.policy.on_expire == "dead":
                self._die(entry, "message_expired", self.now)
            else:
                self._finish(entry, "expired", "body" if self.policy.on_expire == "expired" else "none")
        self._call_up()

    def _exhaust(self, entry: Entry, reason: str) -> None:
        if entry.reason is not None:
            self._finish(entry, "deleted", "none") if self.policy.dlq_exhausted == "delete" else self._die(entry, entry.reason, None)
        elif self.policy.on_exhausted == "dead":
            self._die(entry, reason, self.now)
        else:
            self._finish(entry, "failed", "body" if self.policy.on_exhausted == "fail" else "none")

    def _die(self, entry: Entry, reason: str, due: int | None) -> None:
        entry.state, entry.reason, entry.due, entry.expires_at = "dead", reason, due, None

    def _finish(self, entry: Entry, outcome: str, keep: str) -> None:
        entry.state, entry.outcome, entry.has_body = "finished", outcome, keep == "body"
        if keep == "none":
            del self.entries[entry.id]

    def _hand_out(self, entry: Entry, lease: int | None) -> Entry:
        entry.state, entry.lease = "leased", next(self._leases)
        entry.tries += 1
        entry.lease_until = entry.lease_end(self.now, lease or self.policy.lease_ms)
        return entry

    def _place(self, entry: Entry) -> None:
        """A retry returns to its old place, unless the queue says order: ready."""
        if entry.state == "ready":
            entry.position = next(self._numbers) if self.policy.order == "ready" else entry.number

    def _under(self, key: str | None) -> list[Entry]:
        """Those that wait under a key, also past their time. There is never more than one."""
        return [entry for entry in self.of(*WAITING) if key and entry.key == key]

    def _members(self) -> list[Entry]:
        """Those that still have their turn: waiting, or leased and not as a dead letter."""
        return [entry for entry in self.of(*WAITING, "leased") if entry.reason is None]
