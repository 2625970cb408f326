"""A nack that the deadline limits as well: what a consumer says of work that its function could not do."""

from __future__ import annotations

import random

import pytest

from rowq.model.lifecycle import Change, Dead, Finished, Nack, Standing, Waiting, decide
from rowq.model.queue import DeliveryMode, Policy
from rowq.model.retry import Delays

NOW = 1_000_000
AGAIN = Nack("boom", limit="deadline")
UNLIMITED = Policy(on_exhausted="fail", max_attempts=0, backoff=Delays((100, 300)))


def decided(standing: Standing, nack: Nack = AGAIN, policy: Policy | None = None) -> Change:
    return decide(standing, nack, policy or UNLIMITED, NOW, random.Random(0).random)


def test_without_a_limit_of_the_queue_its_backoff_still_applies() -> None:
    assert decided(Standing(attempts=1)) == Waiting(NOW + 100, 1, None, "boom")
    assert decided(Standing(attempts=99)) == Waiting(NOW + 300, 99, None, "boom")


def test_a_queue_that_has_a_limit_has_its_backoff_too() -> None:
    policy = Policy(max_attempts=2, backoff=Delays((700,)))
    assert decided(Standing(attempts=1), policy=policy) == Waiting(NOW + 700, 1, None, "boom")
    assert decided(Standing(attempts=1), Nack("boom", 0, limit="deadline"), policy) == Waiting(NOW, 1, None, "boom")
    assert decided(Standing(attempts=2), policy=policy) == Dead("max_attempts_reached", "boom", NOW)


def test_a_delay_is_the_callers() -> None:
    assert decided(Standing(attempts=1), Nack("boom", 500, limit="deadline")) == Waiting(NOW + 500, 1, None, "boom")


@pytest.mark.parametrize("mode", ["at_least_once", "at_most_once"])
def test_past_the_deadline_it_is_given_up_in_either_mode(mode: DeliveryMode) -> None:
    policy = Policy(on_exhausted="fail", max_attempts=0, delivery=mode, backoff=Delays())
    assert decided(Standing(attempts=1, deadline=NOW), policy=policy) == Finished("failed", "body", "boom")
    assert decided(Standing(attempts=1, deadline=NOW + 1), policy=policy) == Waiting(NOW, 1, None, "boom")


def test_a_queue_may_want_a_dead_letter_instead() -> None:
    assert decided(Standing(attempts=1, deadline=NOW), policy=Policy()) == Dead("deadline_exceeded", "boom", NOW)


def test_the_senders_own_limit_stands() -> None:
    assert decided(Standing(attempts=1, max_attempts=2)) == Waiting(NOW + 100, 1, None, "boom")
    assert decided(Standing(attempts=2, max_attempts=2)) == Finished("failed", "body", "boom")
    assert decided(Standing(attempts=99, max_attempts=0), Nack("boom", 0, limit="deadline"), Policy()) == Waiting(NOW, 99, None, "boom")
    assert decided(Standing(attempts=1, backoff=Delays((700,)))) == Waiting(NOW + 700, 1, None, "boom")


def test_what_is_released_or_dead_already_goes_as_ever() -> None:
    released = Nack(counts=False, limit="deadline")
    assert decided(Standing(attempts=3, deadline=NOW), released) == Waiting(NOW, 2, None, None)
    letter = decided(Standing(attempts=5, reason="rejected", redeliveries=1, deadline=NOW))
    assert isinstance(letter, Dead) and letter.reason == "rejected"
