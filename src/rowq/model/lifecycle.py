"""The rules of a message's life: given its state, what happened, the queue's policy and the time, what to write.

Every function is pure and returns a value; the store writes it, guarded by the lease token. These decisions are made only here.

    leased ──ack──► Finished
      ├──nack, lease expired──► Waiting (attempts left) │ Dead │ Finished
      ├──reject──► Dead             reschedule──► Waiting, attempts 0
    waiting ──expires──► Dead │ Finished          dead ──redrive──► Waiting
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from rowq.model.queue import Keep, Policy
from rowq.model.retry import Backoff, Random, delay_ms, implied_attempts

Reason = Literal["max_attempts_reached", "message_expired", "rejected", "deadline_exceeded"]
REASONS: tuple[Reason, ...] = get_args(Reason)
NackLimit = Literal["attempts", "deadline"]


class Standing(msgspec.Struct, frozen=True):
    """What the rules need to know of a message. `reason` is set on a dead letter, and only there."""

    attempts: int
    expires_at: int | None = None
    error: str | None = None
    reason: str | None = None
    redeliveries: int = 0
    ttl_ms: int | None = None
    deadline: int | None = None
    max_attempts: int | None = None
    backoff: Backoff | None = None


class Waiting(msgspec.Struct, frozen=True):
    """May be received from `due` on."""

    due: int
    attempts: int
    expires_at: int | None
    error: str | None = None


class Dead(msgspec.Struct, frozen=True):
    """A dead letter. It may be received from `due` on; None means never again."""

    reason: str
    error: str | None
    due: int | None
    redeliveries: int = 0


class Finished(msgspec.Struct, frozen=True):
    """Gone, or kept in the history."""

    outcome: str
    keep: Keep
    error: str | None = None


Change = Waiting | Dead | Finished


class Ack(msgspec.Struct, frozen=True):
    """The message was processed."""


class Nack(msgspec.Struct, frozen=True):
    """Processing failed; `counts=False` releases the message as if it had not been delivered. `limit`: what ends its retries."""

    error: str | None = None
    delay: int | None = None
    counts: bool = True
    limit: NackLimit = "attempts"


class Reject(msgspec.Struct, frozen=True):
    """Processing can never succeed."""

    error: str | None = None


class Reschedule(msgspec.Struct, frozen=True):
    """Later, as if never tried."""

    delay: int
    error: str | None = None


class Extend(msgspec.Struct, frozen=True):
    """More time, with the same receipt."""

    lease_ms: int | None = None


Settlement = Ack | Nack | Reject | Reschedule
"""How a consumer may settle a delivery."""


def decide(standing: Standing, settlement: Settlement, policy: Policy, now: int, random: Random) -> Change:
    match settlement:
        case Ack():
            return after_ack(policy)
        case Nack(error=error, delay=delay, counts=True, limit="deadline") if standing.reason is None:
            return until_deadline(standing, policy, now, random, error=error, delay=delay)
        case Nack(error=error, delay=delay, counts=counts):
            return after_failure(standing, policy, now, random, error=error, delay=delay, counts=counts)
        case Reject(error=error):
            return after_rejection(standing, now, error)
        case Reschedule(delay=delay, error=error):
            return after_reschedule(standing, now, delay, error)


def is_undelivered(standing: Standing, change: Change) -> bool:
    """Whether this change is the moment at which `keys_if_undelivered` are written."""
    if standing.reason is not None:
        return False
    return isinstance(change, Dead) or (isinstance(change, Finished) and change.outcome in ("failed", "expired"))


def lease_until(now: int, lease_ms: int, deadline: int | None) -> int:
    """A lease ends at the deadline at the latest, so that at-least-once consumers may take over then."""
    until = now + lease_ms
    return min(until, deadline) if deadline is not None and deadline > now else until


def expires_at(now: int, due: int, ttl_ms: int | None, policy: Policy) -> int | None:
    ttl = policy.ttl_ms if ttl_ms is None else ttl_ms
    if not ttl:
        return None
    return (due if policy.ttl_from == "available" else now) + ttl


def ends_at(expires_at: int | None, deadline: int | None) -> int | None:
    """When a waiting message ends at the latest."""
    if expires_at is None or deadline is None:
        return expires_at if deadline is None else deadline
    return min(expires_at, deadline)


def most_attempts(max_attempts: int | None, backoff: Backoff | None, policy: Policy) -> int:
    """How often a message with these options is delivered at most; 0 means no limit."""
    if max_attempts is None and backoff is not None:
        max_attempts = implied_attempts(backoff)
    return policy.max_attempts if max_attempts is None else max_attempts


def after_ack(policy: Policy) -> Finished:
    return Finished("acked", policy.keep)


def after_failure(
    standing: Standing, policy: Policy, now: int, random: Random, *, error: str | None, delay: int | None = None, counts: bool = True
) -> Change:
    error = standing.error if error is None else error
    if standing.reason is not None:
        return _dead_letter_returns(standing, policy, now, random, error=error, delay=delay, counts=counts)
    attempts = standing.attempts if counts else standing.attempts - 1
    if _is_past_deadline(standing, policy, now):
        return _exhausted(policy, now, "deadline_exceeded", error)
    if counts and _is_used_up(attempts, standing, policy):
        return _exhausted(policy, now, "max_attempts_reached", error)
    if delay is None:
        delay = delay_ms(standing.backoff or policy.backoff, attempts, random) if counts else 0
    return Waiting(now + delay, attempts, standing.expires_at, error)


def until_deadline(standing: Standing, policy: Policy, now: int, random: Random, *, error: str | None, delay: int | None) -> Change:
    """The deadline ends its retries, in either mode."""
    if standing.deadline is not None and standing.deadline <= now:
        return _exhausted(policy, now, "deadline_exceeded", standing.error if error is None else error)
    return after_failure(standing, policy, now, random, error=error, delay=delay)


def after_lease_expiry(standing: Standing, policy: Policy, now: int, random: Random) -> Change:
    """The delivery was not settled in time: most likely its consumer died."""
    error = standing.error or "the lease expired"
    if standing.reason is None and policy.delivery == "at_most_once":
        past = _is_past_deadline(standing, policy, now)
        return _exhausted(policy, now, "deadline_exceeded" if past else "max_attempts_reached", error)
    delay = None if policy.lease_expiry_backoff == "nack" else 0
    return after_failure(standing, policy, now, random, error=error, delay=delay, counts=policy.count_lease_expiry)


def after_rejection(standing: Standing, now: int, error: str | None) -> Dead:
    due = None if standing.reason is not None else now
    return Dead(standing.reason or "rejected", standing.error if error is None else error, due, standing.redeliveries)


def after_reschedule(standing: Standing, now: int, delay: int, error: str | None) -> Change:
    """Later, as if never tried; the expiry moves by the same amount."""
    error = standing.error if error is None else error
    if standing.reason is not None:
        return Dead(standing.reason, error, now + delay, 0)
    moved = None if standing.expires_at is None else standing.expires_at + delay
    return Waiting(now + delay, 0, moved, error)


def after_expiry(standing: Standing, policy: Policy, now: int) -> Change | None:
    """A waiting message at its TTL or deadline; None when it may still be delivered."""
    if _is_past_deadline(standing, policy, now):
        return _exhausted(policy, now, "deadline_exceeded", standing.error)
    if standing.expires_at is None or standing.expires_at > now:
        return None
    if policy.on_expire == "dead":
        return Dead("message_expired", standing.error, now)
    return Finished("expired", "body" if policy.on_expire == "expired" else "none", standing.error)


def after_redrive(standing: Standing, policy: Policy, now: int) -> Waiting:
    """Back into the queue as if new, under the current policy."""
    return Waiting(now, 0, expires_at(now, now, standing.ttl_ms, policy))


def _dead_letter_returns(
    standing: Standing, policy: Policy, now: int, random: Random, *, error: str | None, delay: int | None, counts: bool
) -> Change:
    redeliveries = standing.redeliveries if counts else standing.redeliveries - 1
    reason = standing.reason or "rejected"
    if counts and _is_used_up(redeliveries, standing, policy):
        return Finished("deleted", "none", error) if policy.dlq_exhausted == "delete" else Dead(reason, error, None, redeliveries)
    if delay is None:
        delay = delay_ms(standing.backoff or policy.backoff, redeliveries, random) if counts else 0
    return Dead(reason, error, now + delay, redeliveries)


def _exhausted(policy: Policy, now: int, reason: Reason, error: str | None) -> Change:
    if policy.on_exhausted == "dead":
        return Dead(reason, error, now)
    return Finished("failed", "body" if policy.on_exhausted == "fail" else "none", error or reason)


def _is_used_up(attempts: int, standing: Standing, policy: Policy) -> bool:
    return 0 < most_attempts(standing.max_attempts, standing.backoff, policy) <= attempts


def _is_past_deadline(standing: Standing, policy: Policy, now: int) -> bool:
    return policy.delivery == "at_most_once" and standing.deadline is not None and standing.deadline <= now
