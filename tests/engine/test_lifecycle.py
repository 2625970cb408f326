"""The rules as decision tables: where a message stands, what happened, and what is to be written."""

from __future__ import annotations

from typing import Any

import pytest

from rowq.model import lifecycle
from rowq.model.lifecycle import Ack, Change, Dead, Finished, Nack, Reject, Reschedule, Settlement, Standing, Waiting
from rowq.model.queue import Policy
from rowq.model.retry import Delays, Exponential, Linear

NOW = 1_000_000
EXPIRY = NOW + 500
PLAIN = Policy(max_attempts=3, backoff=Delays((1_000, 5_000)))
STRICT = Policy(delivery="at_most_once", max_attempts=3, backoff=Delays((1_000,)))
FAIL = Policy(on_exhausted="fail", max_attempts=1)
DELETE = Policy(on_exhausted="delete", max_attempts=1)


def no_chance() -> float:
    return 0.0


def decide(standing: Standing, settlement: Settlement, policy: Policy) -> Change:
    return lifecycle.decide(standing, settlement, policy, NOW, no_chance)


SETTLED: list[tuple[str, Standing, Settlement, Policy, Change]] = [
    ("an ack finishes", Standing(1), Ack(), PLAIN, Finished("acked", "none")),
    ("an ack is kept as the queue says", Standing(1), Ack(), Policy(keep="outcome"), Finished("acked", "outcome")),
    ("a failure waits out its backoff", Standing(1, EXPIRY), Nack("boom"), PLAIN, Waiting(NOW + 1_000, 1, EXPIRY, "boom")),
    ("the second failure waits longer", Standing(2), Nack(), PLAIN, Waiting(NOW + 5_000, 2, None)),
    ("the last failure is the end", Standing(3), Nack("boom"), PLAIN, Dead("max_attempts_reached", "boom", NOW)),
    ("the last failure keeps an older error", Standing(3, error="old"), Nack(), PLAIN, Dead("max_attempts_reached", "old", NOW)),
    ("a delay given beats the backoff", Standing(1), Nack(delay=7), PLAIN, Waiting(NOW + 7, 1, None)),
    ("a delay gives no attempt back", Standing(3), Nack(delay=7), PLAIN, Dead("max_attempts_reached", None, NOW)),
    ("a release does not count", Standing(1), Nack(counts=False), PLAIN, Waiting(NOW, 0, None)),
    ("a release may come at the last attempt", Standing(3), Nack(counts=False), PLAIN, Waiting(NOW, 2, None)),
    ("a release may be delayed", Standing(2), Nack(counts=False, delay=9), PLAIN, Waiting(NOW + 9, 1, None)),
    ("the message's own limit beats the queue's", Standing(3, max_attempts=4), Nack(), PLAIN, Waiting(NOW + 5_000, 3, None)),
    ("no limit is no limit", Standing(99, max_attempts=0), Nack(), PLAIN, Waiting(NOW + 5_000, 99, None)),
    ("n delays are n + 1 deliveries", Standing(2, backoff=Delays((1,))), Nack(), PLAIN, Dead("max_attempts_reached", None, NOW)),
    ("a limit beats its own backoff", Standing(2, max_attempts=9, backoff=Delays((1,))), Nack(), PLAIN, Waiting(NOW + 1, 2, None)),
    ("an empty backoff retries at once", Standing(1, backoff=Delays()), Nack(), PLAIN, Waiting(NOW, 1, None)),
    ("an empty backoff limits nothing", Standing(3, backoff=Delays()), Nack(), PLAIN, Dead("max_attempts_reached", None, NOW)),
    ("a linear backoff grows", Standing(2, backoff=Linear(10)), Nack(), PLAIN, Waiting(NOW + 20, 2, None)),
    ("an exponential backoff doubles", Standing(2, backoff=Exponential(10)), Nack(), PLAIN, Waiting(NOW + 20, 2, None)),
    ("used up may mean failed", Standing(1), Nack("boom"), FAIL, Finished("failed", "body", "boom")),
    ("failed says why without an error", Standing(1), Nack(), FAIL, Finished("failed", "body", "max_attempts_reached")),
    ("used up may mean deleted", Standing(1), Nack("boom"), DELETE, Finished("failed", "none", "boom")),
    ("a rejection is the end", Standing(1), Reject("never"), PLAIN, Dead("rejected", "never", NOW)),
    ("a rejection is dead even where used up means failed", Standing(1), Reject(), FAIL, Dead("rejected", None, NOW)),
    ("later is as if never tried", Standing(3, EXPIRY), Reschedule(60), PLAIN, Waiting(NOW + 60, 0, EXPIRY + 60)),
    ("at most once may fail and be retried", Standing(1, deadline=NOW + 1), Nack(), STRICT, Waiting(NOW + 1_000, 1, None)),
    ("not past its deadline", Standing(1, deadline=NOW), Nack("late"), STRICT, Dead("deadline_exceeded", "late", NOW)),
    ("a deadline binds only at most once", Standing(1, deadline=NOW), Nack(), PLAIN, Waiting(NOW + 1_000, 1, None)),
]

DEAD = Standing(3, reason="rejected", error="old", redeliveries=1)

DEAD_SETTLED: list[tuple[str, Standing, Settlement, Policy, Change]] = [
    ("an ack removes it", DEAD, Ack(), PLAIN, Finished("acked", "none")),
    ("a failure returns it", DEAD, Nack("new"), PLAIN, Dead("rejected", "new", NOW + 1_000, 1)),
    ("a failure keeps the old error", DEAD, Nack(), PLAIN, Dead("rejected", "old", NOW + 1_000, 1)),
    ("a release does not count", DEAD, Nack(counts=False), PLAIN, Dead("rejected", "old", NOW, 0)),
    ("a rejection rests it for good", DEAD, Reject(), PLAIN, Dead("rejected", "old", None, 1)),
    ("later counts afresh", DEAD, Reschedule(60), PLAIN, Dead("rejected", "old", NOW + 60, 0)),
    ("used up it rests", Standing(3, reason="rejected", redeliveries=3), Nack(), PLAIN, Dead("rejected", None, None, 3)),
    (
        "used up it may be deleted",
        Standing(3, reason="rejected", redeliveries=3),
        Nack("x"),
        Policy(max_attempts=3, dlq_exhausted="delete"),
        Finished("deleted", "none", "x"),
    ),
]

EXPIRED_LEASES: list[tuple[str, Standing, Policy, Change]] = [
    ("it retries at once, and counts", Standing(1), PLAIN, Waiting(NOW, 1, None, "the lease expired")),
    ("its attempts end", Standing(3), PLAIN, Dead("max_attempts_reached", "the lease expired", NOW)),
    ("an older error says more", Standing(1, error="boom"), PLAIN, Waiting(NOW, 1, None, "boom")),
    ("it may not count", Standing(3), Policy(max_attempts=3, count_lease_expiry=False), Waiting(NOW, 2, None, "the lease expired")),
    (
        "it may wait out a backoff",
        Standing(1),
        Policy(lease_expiry_backoff="nack", backoff=Delays((1_000,))),
        Waiting(NOW + 1_000, 1, None, "the lease expired"),
    ),
    ("at most once is not twice", Standing(1), STRICT, Dead("max_attempts_reached", "the lease expired", NOW)),
    ("nor past its deadline", Standing(1, deadline=NOW), STRICT, Dead("deadline_exceeded", "the lease expired", NOW)),
    ("a dead letter returns, also at most once", DEAD, STRICT, Dead("rejected", "old", NOW, 1)),
]

ENDED: list[tuple[str, Standing, Policy, Change | None]] = [
    ("before its time it may be delivered", Standing(0, NOW + 1), PLAIN, None),
    ("without a time it may be delivered", Standing(0), PLAIN, None),
    ("at its time it is dead", Standing(1, NOW, "boom"), PLAIN, Dead("message_expired", "boom", NOW)),
    ("or expired, with its body", Standing(0, NOW), Policy(on_expire="expired"), Finished("expired", "body")),
    ("or gone", Standing(0, NOW), Policy(on_expire="delete"), Finished("expired", "none")),
    ("a deadline is nothing to at least once", Standing(0, deadline=NOW), PLAIN, None),
    ("a deadline ends at most once", Standing(0, deadline=NOW), STRICT, Dead("deadline_exceeded", None, NOW)),
    ("a deadline comes before a TTL", Standing(0, NOW, deadline=NOW), STRICT, Dead("deadline_exceeded", None, NOW)),
]


def ids(table: list[Any]) -> list[str]:
    return [row[0] for row in table]


@pytest.mark.parametrize("row", SETTLED, ids=ids(SETTLED))
def test_what_a_verdict_makes_of_a_message(row: tuple[str, Standing, Settlement, Policy, Change]) -> None:
    _, standing, settlement, policy, change = row
    assert decide(standing, settlement, policy) == change


@pytest.mark.parametrize("row", DEAD_SETTLED, ids=ids(DEAD_SETTLED))
def test_what_a_verdict_makes_of_a_dead_letter(row: tuple[str, Standing, Settlement, Policy, Change]) -> None:
    _, standing, settlement, policy, change = row
    assert decide(standing, settlement, policy) == change


@pytest.mark.parametrize("row", EXPIRED_LEASES, ids=ids(EXPIRED_LEASES))
def test_what_becomes_of_a_message_whose_lease_ran_out(row: tuple[str, Standing, Policy, Change]) -> None:
    _, standing, policy, change = row
    assert lifecycle.after_lease_expiry(standing, policy, NOW, no_chance) == change


@pytest.mark.parametrize("row", ENDED, ids=ids(ENDED))
def test_what_becomes_of_a_message_at_its_end(row: tuple[str, Standing, Policy, Change | None]) -> None:
    _, standing, policy, change = row
    assert lifecycle.after_expiry(standing, policy, NOW) == change


@pytest.mark.parametrize(
    ("ttl", "policy", "expected"),
    [
        (None, Policy(), None),
        (None, Policy(ttl_ms=100), NOW + 50 + 100),
        (7, Policy(ttl_ms=100), NOW + 50 + 7),
        (0, Policy(ttl_ms=100), None),
        (7, Policy(ttl_from="enqueue"), NOW + 7),
    ],
)
def test_when_a_message_expires(ttl: int | None, policy: Policy, expected: int | None) -> None:
    assert lifecycle.expires_at(NOW, NOW + 50, ttl, policy) == expected


@pytest.mark.parametrize(("expires_at", "deadline", "expected"), [(None, None, None), (5, None, 5), (None, 7, 7), (5, 7, 5), (7, 5, 5)])
def test_somebody_looks_at_a_message_at_the_earlier_of_both(expires_at: int | None, deadline: int | None, expected: int | None) -> None:
    assert lifecycle.ends_at(expires_at, deadline) == expected


@pytest.mark.parametrize(("deadline", "expected"), [(None, NOW + 100), (NOW + 40, NOW + 40), (NOW + 400, NOW + 100), (NOW, NOW + 100)])
def test_a_lease_ends_at_a_coming_deadline(deadline: int | None, expected: int) -> None:
    assert lifecycle.lease_until(NOW, 100, deadline) == expected


def test_a_redriven_message_is_as_if_new() -> None:
    standing = Standing(3, reason="rejected", error="boom", redeliveries=2, ttl_ms=10)
    assert lifecycle.after_redrive(standing, PLAIN, NOW) == Waiting(NOW, 0, NOW + 10)


@pytest.mark.parametrize(
    ("standing", "change", "expected"),
    [
        (Standing(1), Dead("rejected", None, NOW), True),
        (Standing(1), Finished("failed", "none"), True),
        (Standing(1), Finished("expired", "body"), True),
        (Standing(1), Finished("acked", "none"), False),
        (Standing(1), Finished("superseded", "none"), False),
        (Standing(1), Waiting(NOW, 1, None), False),
        (DEAD, Dead("rejected", None, NOW), False),
    ],
)
def test_when_a_message_counts_as_undelivered(standing: Standing, change: Change, expected: bool) -> None:
    assert lifecycle.is_undelivered(standing, change) is expected
