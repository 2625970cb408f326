"""Runs that are bent in one place: deliveries that two hold, that the wrong one settles, or that come once too often."""

from __future__ import annotations

import pytest

from tests.trust.tale import LEASE_MS, Bend, Bends, Tale

bent = Bends()


@bent("acked stays acked")
def acked_and_delivered_again(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "acked", "delivered y", "acked")


@bent("acked stays acked")
def acked_and_delivered_again_behind_the_audits_back(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "acked")
    tale.take(1, "y")


@bent("every delivery is in the audit")
def delivered_behind_the_audits_back(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued")
    tale.take(1, "y")
    tale.put(1, "ready")


@bent("gone is gone")
def purged_and_delivered(tale: Tale) -> None:
    tale.send(1)
    tale.call("purge", "plain")
    tale.live(1, "enqueued", "purged", "delivered x", "acked")


@bent("one holder at a time")
def two_hold_it(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "delivered y", "acked")


@bent("one holder at a time")
def a_lease_that_ended_early(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "lease_expired", "delivered y", "acked")


@bent("one holder at a time")
def an_extended_lease_that_ended_early(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x")
    tale.audit(1, "extended")
    tale.say(1, "extend", until=tale._at + 9000)
    tale._us += LEASE_MS * 1000
    tale._at += LEASE_MS
    tale.live(1, "lease_expired", "delivered y", "acked")


@bent("one holder at a time")
def a_lease_of_nobody_that_ended_early(tale: Tale) -> None:
    tale.send(1)
    tale.audit(1, "enqueued", "delivered x", "lease_expired")
    tale.live(1, "delivered y", "acked")


@bent("one holder at a time")
def a_lease_that_was_over_by_the_database_and_not_by_the_watch(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x")
    tale._at += LEASE_MS
    tale.live(1, "lease_expired", "delivered y", "acked")


@bent("one holder at a time")
def two_with_one_receipt(tale: Tale) -> None:
    tale.send(1)
    tale.audit(1, "enqueued", "delivered x")
    tale.take(1, "x", token=7)
    tale.audit(1, "nacked", "delivered y")
    tale.say(1, "nack")
    tale.take(1, "y", token=7)
    tale.put(1, "leased")


@bent("only the holder settles")
def a_stale_receipt_is_good_enough(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "nacked", "delivered y", "acked")
    tale.say(1, "ack", taken=1)


@bent("only the holder settles")
def done_twice(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "acked")
    tale.say(1, "ack")


@bent("only the holder settles")
def done_and_not_done(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x")
    tale.say(1, "ack")
    tale.put(1, "leased")


@bent("only the holder settles")
def acked_by_nobody(tale: Tale) -> None:
    tale.send(1)
    tale.audit(1, "enqueued", "delivered x", "acked")


@bent("only the holder settles")
def nacked_by_one_who_acked(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x")
    tale.say(1, "ack")
    tale.audit(1, "nacked")
    tale.put(1, "scheduled")


@bent("only the holder settles")
def acked_though_the_holder_was_told_that_it_failed(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x")
    tale.audit(1, "acked")
    tale.say(1, "ack", "refused")


@bent("only the holder settles")
def a_made_up_receipt_is_good_enough(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "acked")
    tale.say(1, "ack", taken=0)


@bent("only the holder settles")
def extended_by_nobody(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x")
    tale.audit(1, "extended")
    tale.live(1, "acked")


@bent("only the holder settles")
def extended_twice_where_it_was_asked_once(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x")
    tale.audit(1, "extended", "extended")
    tale.say(1, "extend", until=tale._at + LEASE_MS)
    tale.live(1, "acked")


@bent("only the holder settles")
def an_extend_that_was_told_to_be_done_and_is_not(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x")
    tale.say(1, "extend", until=tale._at + LEASE_MS, way="http")
    tale.live(1, "acked")


@bent("attempts have a limit")
def one_attempt_too_many(tale: Tale) -> None:
    tale.send(1, queue="fragile")
    tale.live(1, "enqueued", "delivered x", "nacked", "delivered y", "nacked", "delivered z", "acked", queue="fragile")
    tale.put(1, "acked", "fragile")


@bent("attempts are counted")
def an_attempt_that_was_not_counted(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "nacked")
    tale._attempts[1] = 0
    tale.live(1, "delivered y", "acked")


@bent("dead is dead")
def dead_and_delivered(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "rejected", "dead rejected", "delivered y", "acked")


@bent("dead is dead")
def rejected_and_delivered(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "rejected", "delivered y", "acked")


@bent("death has a cause")
def dead_too_early(tale: Tale) -> None:
    tale.send(1, queue="fragile")
    tale.live(1, "enqueued", "delivered x", "nacked", "dead max_attempts_reached", queue="fragile")
    tale.put(1, "dead", "fragile")


@bent("death has a cause")
def dead_of_nothing(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "dead rejected")
    tale.put(1, "dead")


@bent("at most once")
def at_most_once_twice(tale: Tale) -> None:
    tale.send(1, queue="once")
    tale.live(1, "enqueued", "delivered x", queue="once")
    tale._at += LEASE_MS
    tale._us += LEASE_MS * 1000
    tale.live(1, "lease_expired", "delivered y", "acked", queue="once")
    tale.put(1, "acked", "once")


@bent("at most once")
def at_most_once_taken_back_by_the_server(tale: Tale) -> None:
    tale.send(1, queue="once")
    tale.audit(1, "enqueued", "delivered x", "released", queue="once")
    tale._attempts[1] = 0
    tale.live(1, "delivered y", "acked", queue="once")
    tale.put(1, "acked", "once")


@bent("at most once")
def at_most_once_twice_behind_the_audits_back(tale: Tale) -> None:
    tale.send(1, queue="once")
    tale.live(1, "enqueued", "delivered x", "acked", queue="once")
    tale.take(1, "y")
    tale.put(1, "acked", "once")


@bent("events follow from each other")
def enqueued_twice(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "enqueued")
    tale.put(1, "ready")


@bent("known events only")
def something_unheard_of(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "bewitched")
    tale.put(1, "ready")


@pytest.mark.parametrize(("check", "bend"), bent.all)
def test_a_violation_is_named(tale: Tale, check: str, bend: Bend) -> None:
    bend(tale)
    assert check in tale.named()


def test_a_set_clock_may_end_leases_early_by_the_watch(tale: Tale) -> None:
    a_lease_that_was_over_by_the_database_and_not_by_the_watch(tale)
    assert tale.judge(has_true_clock=False).violations == []
