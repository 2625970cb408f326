"""What holds the remains against the promises sees every way in which one can be broken."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.disasters.lives import HANDLED, LIVES, STEPS
from tests.disasters.survival import undone_steps

SENT, DELIVERED, ACKED = "enqueued", "delivered", "acked"
EVERYTHING = {"send", "decision", "handling"}
BY_DEFAULT = {"send", "decision"}


def test_what_is_all_there_is_well() -> None:
    for life in LIVES.values():
        story = [event for step in life for event in STEPS[step].events]
        assert not undone_steps(life, life[1:], story, STEPS[life[-1]].state, EVERYTHING)


@pytest.mark.parametrize(
    ("answered", "story", "state", "kept"),
    [
        (["send"], [], None, BY_DEFAULT),
        (["send", "receive"], [SENT], "ready", EVERYTHING),
        (["send", "receive", "ack"], [SENT, DELIVERED], "leased", EVERYTHING),
        (["send", "receive", "ack"], [], None, BY_DEFAULT),
        (["send", "receive at most once"], [SENT], "ready", BY_DEFAULT),
        (["send", "receive", "reject"], [SENT, DELIVERED], "leased", BY_DEFAULT),
        (["send", "receive", "reject"], [SENT], "ready", BY_DEFAULT),
        (["send", "delete"], [SENT], "ready", BY_DEFAULT),
    ],
)
def test_an_answered_call_that_is_kept_and_gone_is_seen(answered: list[str], story: list[str], state: str | None, kept: set[str]) -> None:
    with pytest.raises(AssertionError, match="was answered, and there is only"):
        undone_steps(answered, answered[1:], story, state, kept)


def test_what_may_be_undone_is_counted() -> None:
    assert undone_steps(["send", "receive", "ack"], ["receive", "ack"], [SENT], "ready", BY_DEFAULT) == Counter(handling=2)
    assert undone_steps(["send", "receive", "reject"], ["receive", "reject"], [], None, set()) == Counter(send=1, handling=1, decision=1)


def test_a_call_without_an_answer_may_be_there_or_not() -> None:
    assert not undone_steps(["send", "receive"], ["receive", "ack"], [SENT, DELIVERED], "leased", EVERYTHING)
    assert not undone_steps(["send", "receive"], ["receive", "ack"], [SENT, DELIVERED, ACKED], None, EVERYTHING)


@pytest.mark.parametrize(
    "story",
    [[DELIVERED], [SENT, SENT], [SENT, DELIVERED, DELIVERED], [SENT, DELIVERED, "rejected"], [SENT, DELIVERED, ACKED, DELIVERED]],
)
def test_what_nobody_asked_for_is_seen(story: list[str]) -> None:
    """Also half of what comes together."""
    with pytest.raises(AssertionError, match="nobody asked for"):
        undone_steps(["send"], ["receive", "reject" if "rejected" in story else "ack"], story, "leased", set())


@pytest.mark.parametrize(("story", "state"), [([SENT], None), ([SENT], "leased"), ([SENT, DELIVERED, ACKED], "ready"), ([], "ready")])
def test_a_state_that_does_not_fit_the_story_is_seen(story: list[str], state: str | None) -> None:
    with pytest.raises(AssertionError, match="this one is"):
        undone_steps(["send"], ["receive", "ack"], story, state, set())


def test_handling_needs_no_call_that_must_be_on_disk() -> None:
    assert {"acked", "nacked", "extended", "received"} == set(HANDLED)
