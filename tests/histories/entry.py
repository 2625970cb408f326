"""A message of the model, and what its own terms and the queue's policy say of it at a moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rowq import Policy
from rowq.model.retry import Delays


@dataclass
class Entry:
    """`number` is its place in the order of sending, `position` its place among the ready ones. Dead letters have a reason."""

    id: str
    payload: Any
    number: int
    key: str | None = None
    group: str | None = None
    priority: int = 0
    ttl: int | None = None
    deadline: int | None = None
    max_attempts: int | None = None
    backoff: tuple[int, ...] | None = None
    state: str = "new"
    position: int = 0
    attempts: int = 0
    due: int | None = 0
    expires_at: int | None = None
    lease_until: int = 0
    lease: int = 0
    reason: str | None = None
    redeliveries: int = 0
    outcome: str | None = None
    has_body: bool = True

    @property
    def tries(self) -> int:
        """A dead letter counts its deliveries afresh."""
        return self.attempts if self.reason is None else self.redeliveries

    @tries.setter
    def tries(self, count: int) -> None:
        if self.reason is None:
            self.attempts = count
        else:
            self.redeliveries = count

    def is_late(self, policy: Policy, now: int) -> bool:
        return policy.delivery == "at_most_once" and self.deadline is not None and self.deadline <= now

    def is_ended(self, policy: Policy, now: int) -> bool:
        return self.is_late(policy, now) or (self.expires_at is not None and self.expires_at <= now)

    def is_used_up(self, policy: Policy) -> bool:
        limit = self.max_attempts
        if limit is None:
            limit = len(self.backoff) + 1 if self.backoff else policy.max_attempts
        return 0 < limit <= self.tries

    def retry_delay(self, policy: Policy) -> int:
        delays = self.backoff
        if delays is None:
            assert isinstance(policy.backoff, Delays)
            delays = policy.backoff.delays_ms
        return delays[min(self.tries, len(delays)) - 1] if delays else 0

    def expiry(self, policy: Policy, now: int, due: int) -> int | None:
        ttl = policy.ttl_ms if self.ttl is None else self.ttl
        return (due if policy.ttl_from == "available" else now) + ttl if ttl else None

    def lease_end(self, now: int, lease: int) -> int:
        """At a deadline to come at the latest; a dead letter has none."""
        is_bound = self.deadline is not None and self.deadline > now and self.reason is None
        return min(now + lease, self.deadline or 0) if is_bound else now + lease
