"""walk(): every message once, in one consistent view."""

from __future__ import annotations

import pytest

from rowq import Broker, QueueNotFound, State
from tests.support.harness import Harness
from tests.support.life import depths, drain, one_of_each

WAYS = ("sync", "http-sync")


@pytest.fixture
def walker(harness: Harness) -> Broker:
    return harness.broker


def test_every_message_is_walked_once(walker: Broker) -> None:
    each = one_of_each(walker)
    other = walker.send("p", "other")
    assert sorted(message.id for message in walker.walk()) == sorted([*each.values(), other])


def test_one_queue_is_walked_alone(walker: Broker) -> None:
    each = one_of_each(walker)
    walker.send("p", "other")
    assert {message.id: message.state for message in walker.walk("q")} == {id: State(state) for state, id in each.items()}


def test_some_states_are_walked_alone(walker: Broker) -> None:
    each = one_of_each(walker)
    assert {message.id for message in walker.walk("q", states=["dead", "blocked"])} == {each["dead"], each["blocked"]}


def test_a_walk_sees_what_was_there_when_it_began(walker: Broker) -> None:
    sent = walker.send_many("q", list(range(2_500)))
    walk = walker.walk("q")
    first = next(walk)
    drain(walker)
    walker.send("q", "too late")
    assert sorted([first.id, *(message.id for message in walk)]) == sent
    assert depths(walker) == {"ready": 1}


def test_a_walk_may_be_left_early(walker: Broker) -> None:
    walker.send_many("q", [1, 2, 3])
    for _ in walker.walk("q"):
        break
    assert drain(walker) == [1, 2, 3]


def test_an_empty_queue_is_walked(walker: Broker) -> None:
    walker.configure("empty")
    assert list(walker.walk("empty")) == list(walker.walk()) == []


def test_a_mistyped_queue_is_not_walked(walker: Broker) -> None:
    walker.send("emails", 1)
    with pytest.raises(QueueNotFound, match="did you mean 'emails'"):
        list(walker.walk("emials"))
