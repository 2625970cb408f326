"""The verbs are the same for threads and for event loops."""

from __future__ import annotations

import inspect

import pytest

from rowq import AsyncBroker, Broker

SYNC_ONLY = {"walk"}
"""It streams through one reader, row by row."""


def verbs(broker: type) -> dict[str, list[str]]:
    """Every public verb with the names of its parameters."""
    return {
        name: list(inspect.signature(verb).parameters) for name, verb in vars(broker).items() if not name.startswith("_") and callable(verb)
    }


def test_both_brokers_offer_the_same_verbs() -> None:
    assert verbs(Broker).keys() - SYNC_ONLY == verbs(AsyncBroker).keys()


@pytest.mark.parametrize("verb", sorted(verbs(Broker).keys() & verbs(AsyncBroker).keys()))
def test_a_verb_takes_the_same_options_in_both(verb: str) -> None:
    assert verbs(Broker)[verb] == verbs(AsyncBroker)[verb]


@pytest.mark.parametrize("verb", sorted(verbs(AsyncBroker).keys() - {"within"}))
def test_every_verb_of_an_event_loop_is_awaited(verb: str) -> None:
    assert inspect.iscoroutinefunction(getattr(AsyncBroker, verb))
