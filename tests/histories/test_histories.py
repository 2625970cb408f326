"""No history of verbs, accidents and time makes a queue differ from its model, whatever its settings."""

from __future__ import annotations

import os
from typing import ClassVar

import hypothesis
import pytest
from hypothesis import HealthCheck
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from rowq import Settings
from rowq.model.retry import Delays
from tests.histories.events import Event, events
from tests.histories.world import World

SETTINGS = {
    "the defaults": Settings(),
    "returning to the end": Settings(order="ready", max_attempts=2, backoff=Delays((1_000,)), keep="body"),
    "everything kept": Settings(on_exhausted="fail", on_expire="expired", keep="outcome", count_lease_expiry=False, max_attempts=1),
    "at most once": Settings(delivery="at_most_once", on_expire="delete", lease_expiry_backoff="nack", dlq_exhausted="delete"),
    "short of room": Settings(max_depth=4, ttl_ms=20_000, ttl_from="enqueue", refresh_ttl=True, on_exhausted="delete", order="ready"),
}

IS_THOROUGH = os.environ.get("ROWQ_HYPOTHESIS") == "thorough"
EXAMPLES = {"sqlite": 10, "postgresql": 2, "mariadb": 2}
"""A step on a server takes several times as long as one on a file."""
MANY_EXAMPLES = {"sqlite": 60, "postgresql": 12, "mariadb": 12}


class History(RuleBasedStateMachine):
    """One rule that takes any event, not a rule for each: Hypothesis leaves rules out at random, and without receives nothing happens."""

    settings: ClassVar[Settings]
    kind: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.settings, self.kind)

    @rule(event=events)
    def happens(self, event: Event) -> None:
        event.happen(self.world)

    @invariant()
    def the_queue_and_the_model_agree(self) -> None:
        self.world.check()
        self.world.check_counts()

    @invariant()
    def the_last_messages_are_found_or_gone(self) -> None:
        for id in self.world.sent[-2:]:
            self.world.check_by_id(id)

    @invariant()
    def the_tables_are_sound(self) -> None:
        self.world.check_tables()

    def teardown(self) -> None:
        try:
            self.world.drain()
        finally:
            self.world.close()


def history_with(name: str, kind: str) -> type[History]:
    """Its own name gives it a search of its own: the same events everywhere would be a fraction of the histories."""
    return type(f"History of {name} on {kind}", (History,), {"settings": SETTINGS[name], "kind": kind})


def effort(examples: int) -> hypothesis.settings:
    """A search that finds the same every time; with `ROWQ_HYPOTHESIS=thorough` it goes far, and elsewhere every time."""
    return hypothesis.settings(
        max_examples=examples * (34 if IS_THOROUGH else 1),
        stateful_step_count=50,
        derandomize=not IS_THOROUGH,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


pytestmark = pytest.mark.timeout(0 if IS_THOROUGH else 600)  # it only takes that long to shrink a history that failed


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("name", SETTINGS)
def test_every_history_is_as_the_model_says(name: str, kind: str) -> None:
    run_state_machine_as_test(history_with(name, kind), settings=effort(EXAMPLES[kind]))


@pytest.mark.prove("200 s of histories; test_every_history_is_as_the_model_says is the same search, and ends earlier")
@pytest.mark.parametrize("kind", MANY_EXAMPLES)
@pytest.mark.parametrize("name", SETTINGS)
def test_a_long_search_finds_no_history_that_differs(name: str, kind: str) -> None:
    run_state_machine_as_test(history_with(name, kind), settings=effort(MANY_EXAMPLES[kind]))
