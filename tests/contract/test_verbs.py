"""The verbs are the same for threads and for event loops, in process and over HTTP."""

from __future__ import annotations

import inspect

import pytest

from rowq import AsyncBroker, AsyncRemoteBroker, AsyncWithin, Broker, RemoteBroker, Within

SYNC_ONLY = {"walk"}
"""It streams through one reader, row by row."""

LOCAL_ONLY = {"within"}
"""It needs the database itself."""

GIVES_A_WORKER = {"producer", "consumer"}
"""What is awaited is what the worker does."""


def verbs(broker: type) -> dict[str, list[str]]:
    """Every public verb with the names of its parameters."""
    found = inspect.getmembers(broker, callable)
    return {name: list(inspect.signature(verb).parameters) for name, verb in found if not name.startswith("_")}


def test_both_brokers_offer_the_same_verbs() -> None:
    assert verbs(Broker).keys() - SYNC_ONLY == verbs(AsyncBroker).keys()


@pytest.mark.parametrize(("remote", "local"), [(RemoteBroker, Broker), (AsyncRemoteBroker, AsyncBroker)])
def test_a_remote_broker_is_a_broker_without_what_needs_the_database(remote: type, local: type) -> None:
    assert issubclass(remote, local)
    assert verbs(remote) == {verb: options for verb, options in verbs(local).items() if verb not in LOCAL_ONLY}


@pytest.mark.parametrize("verb", sorted(verbs(Broker).keys() & verbs(AsyncBroker).keys()))
def test_a_verb_takes_the_same_options_in_both(verb: str) -> None:
    assert verbs(Broker)[verb] == verbs(AsyncBroker)[verb]


@pytest.mark.parametrize("verb", sorted(verbs(AsyncBroker).keys() - LOCAL_ONLY - GIVES_A_WORKER))
@pytest.mark.parametrize("broker", [AsyncBroker, AsyncRemoteBroker])
def test_every_verb_of_an_event_loop_is_awaited(broker: type, verb: str) -> None:
    function = getattr(broker, verb)
    is_old_name = inspect.signature(function).return_annotation.startswith(
        "Coroutine["
    )  # it warns where it is called, then gives the new one's
    assert inspect.iscoroutinefunction(function) or is_old_name


def test_the_verbs_within_a_transaction_are_the_same_where_they_are_awaited() -> None:
    assert verbs(Within) == verbs(AsyncWithin)
    assert verbs(Within).items() <= verbs(Broker).items()
    assert all(inspect.iscoroutinefunction(getattr(AsyncWithin, verb)) for verb in verbs(AsyncWithin))
