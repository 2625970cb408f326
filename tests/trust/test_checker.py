"""The checker has nothing to say of runs as they should be, and shows what it means where it has."""

from __future__ import annotations

import pytest

from tests.trust.tale import LEASE_MS, Bend, Tale


def a_true_story(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "nacked", "delivered y", "acked")
    tale.say(1, "ack", "refused")
    tale.say(1, "ack", "refused", taken=0)


def of_the_dead(tale: Tale) -> None:
    tale.send(1, queue="fragile")
    tale.live(1, "enqueued", "delivered x", "nacked", "delivered y", "nacked", "dead max_attempts_reached: unwell", queue="fragile")
    tale.call("redrive", "fragile")
    tale.audit(1, "redriven", queue="fragile")
    tale._attempts[1] = 0
    tale.live(1, "delivered z", "rejected", "dead rejected", queue="fragile")
    tale.put(1, "dead", "fragile")


def of_a_lease_that_ran_out(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x")
    tale._at += LEASE_MS
    tale._us += LEASE_MS * 1000
    tale.live(1, "lease_expired", "delivered y", "extended", "acked")


def of_a_lost_answer(tale: Tale) -> None:
    tale.send(None, None, fate="unknown")
    tale.live(1, "enqueued", "delivered x", "acked", name="p.0.1.0")
    tale.audit(2, "enqueued")
    tale.call("purge", "plain")
    tale.audit(2, "purged")


def of_a_lost_receive(tale: Tale) -> None:
    """Nobody has got it as x; the server took it back, and x asked again under the same name."""
    tale.send(1)
    tale.audit(1, "enqueued", "delivered x", "released")
    tale._attempts[1] = 0
    tale.live(1, "delivered x", "acked")


def of_a_first_try_that_arrived_late(tale: Tale) -> None:
    """x was answered at its second try; the first one came to the server only after that, and its answer went nowhere."""
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "nacked")
    tale.audit(1, "delivered x")
    tale._at += LEASE_MS
    tale._us += LEASE_MS * 1000
    tale.live(1, "lease_expired", "delivered y", "acked")


def of_an_extend_that_was_heard_twice(tale: Tale) -> None:
    """Over HTTP it is said again when no answer comes."""
    tale.send(1)
    tale.live(1, "enqueued", "delivered x")
    tale.audit(1, "extended", "extended")
    tale.say(1, "extend", until=tale._at + LEASE_MS, way="http")
    tale.live(1, "acked")


def of_a_group(tale: Tale) -> None:
    for seq in (1, 2):
        tale.send(seq, queue="grouped", group="g")
    tale.audit(1, "enqueued", queue="grouped")
    tale.audit(2, "enqueued", queue="grouped")
    tale.live(1, "delivered x", "rescheduled", queue="grouped", group="g")
    tale._attempts[1] = 0
    tale.live(1, "delivered y", "acked", queue="grouped", group="g")
    tale.live(2, "delivered x", "acked", queue="grouped", group="g", name="p.0.2.0")
    for seq in (1, 2):
        tale.put(seq, "acked", "grouped")


def of_a_key(tale: Tale) -> None:
    tale.send(1, queue="keyed", key="k")
    newer = tale.send(1, queue="keyed", key="k")
    tale.audit(1, "enqueued", "replaced", queue="keyed")
    tale.live(1, "delivered x", "acked", queue="keyed", name=newer)
    tale.put(1, "acked", "keyed")


def of_a_dead_letter_that_comes_back_into_its_group(tale: Tale) -> None:
    """A younger one that waits steps back."""
    names = {seq: tale.send(seq, queue="grouped", group="g") for seq in (1, 2)}
    tale.live(1, "enqueued", "delivered x", "rejected", "dead rejected", queue="grouped", group="g")
    tale.live(2, "enqueued", "delivered y", "nacked", queue="grouped", group="g", name=names[2])
    tale.call("redrive", "grouped")
    tale.audit(1, "redriven", queue="grouped")
    tale._attempts[1] = 0
    tale.live(1, "delivered z", "acked", queue="grouped", group="g")
    tale.live(2, "delivered z2", "acked", queue="grouped", group="g", name=names[2])
    for seq in (1, 2):
        tale.put(seq, "acked", "grouped")


def of_spans_that_were_kept(tale: Tale) -> None:
    tale.send(1, queue="brief", ttl=500)
    tale.audit(1, "enqueued", queue="brief")
    tale.send(2, queue="brief", delay=3000)
    tale.audit(2, "enqueued", queue="brief")
    tale._at += 3000
    tale._us += 3000 * 1000
    tale.audit(1, "expired", queue="brief")
    tale.put(1, "expired", "brief")
    tale.live(2, "delivered x", "acked", queue="brief", name="p.0.2.0")
    tale.put(2, "acked", "brief")


def of_what_operators_took_away(tale: Tale) -> None:
    tale.send(1)
    tale.audit(1, "enqueued")
    tale.delete(1)
    tale.audit(1, "deleted")
    tale.delete(1, fate="refused", code="message_not_found")
    tale.send(2)
    tale.audit(2, "enqueued")
    tale.call("purge", "plain")
    tale.audit(2, "purged")


TRUE = [
    of_spans_that_were_kept,
    of_what_operators_took_away,
    of_a_dead_letter_that_comes_back_into_its_group,
    a_true_story,
    of_the_dead,
    of_a_lease_that_ran_out,
    of_a_lost_answer,
    of_a_lost_receive,
    of_an_extend_that_was_heard_twice,
    of_a_first_try_that_arrived_late,
    of_a_group,
    of_a_key,
]


@pytest.mark.parametrize("story", TRUE)
def test_what_is_true_is_no_violation(tale: Tale, story: Bend) -> None:
    story(tale)
    verdict = tale.judge()
    assert verdict.violations == []
    assert sum(verdict.checked.values()) > 5


def test_a_violation_comes_with_the_lines_that_show_it(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "delivered y", "acked")
    told = next(violation for violation in tale.judge().violations if "one holder" in violation)
    assert "audit 3: at 300 delivered attempt=2 by y" in told
    assert "receive answered" in told


def test_of_many_violations_of_a_kind_the_first_are_told(tale: Tale) -> None:
    for seq in range(1, 40):
        tale.put(seq, "ready")
    violations = tale.judge().violations
    assert len(violations) == 11
    assert violations[-1] == "everything is in the audit: and more of the same"
