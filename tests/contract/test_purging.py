"""Many messages away at once, by state."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import Broker, InvalidArgument, LeaseLost, State
from tests.support.life import assert_gone, bury, depths, drain, one_of_each, take


def test_what_waits_is_purged_by_default(broker: Broker) -> None:
    each = one_of_each(broker)
    assert broker.purge("q") == 3
    assert depths(broker) == {"leased": 1, "dead": 1, "finished": 1}
    for state in ("ready", "scheduled", "blocked"):
        assert_gone(broker, each[state])


@pytest.mark.parametrize("state", ["scheduled", "blocked", "leased", "dead", "finished"])
def test_one_state_is_purged_alone(broker: Broker, state: Any) -> None:
    each = one_of_each(broker)
    assert broker.purge("q", states=[state]) == 1
    assert depths(broker) == {other: 1 for other in each if other != state}
    assert_gone(broker, each[state])


def test_every_state_is_purged_together(broker: Broker) -> None:
    one_of_each(broker)
    assert broker.purge("q", states=list(State)) == 6
    assert depths(broker) == {}


def test_the_name_of_the_dead_letters_is_not_that_of_what_waits(broker: Broker) -> None:
    one_of_each(broker)
    with pytest.raises(InvalidArgument, match="name the queue 'q'"):
        broker.purge("q.dlq", states=["ready", "dead"])
    assert broker.purge("q.dlq") == 1
    assert (broker.stats("q").ready, broker.stats("q").dead) == (1, 0)


def test_who_watches_hears_how_many_are_gone(broker: Broker) -> None:
    one_of_each(broker)
    seen: list[int] = []
    assert broker.purge("q", states=list(State), progress=seen.append) == 6
    assert seen == sorted(seen)
    assert seen[-1] == 6


def test_a_purged_lease_is_lost(broker: Broker) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    broker.purge("q", states=["leased"])
    with pytest.raises(LeaseLost):
        broker.ack(delivery)


def test_a_dead_letter_that_somebody_has_received_is_purged_with_the_dead(broker: Broker) -> None:
    for payload in ("a", "b"):
        bury(broker, payload)
    delivery = take(broker, "q.dlq")
    assert broker.purge("q", states=["leased"]) == 0
    assert broker.purge("q.dlq") == 2
    assert depths(broker) == {}
    with pytest.raises(LeaseLost):
        broker.ack(delivery)


def test_other_queues_are_not_purged(broker: Broker) -> None:
    broker.send("q", "x")
    broker.send("p", "x")
    broker.purge("q")
    assert depths(broker, "p") == {"ready": 1}


@pytest.mark.parametrize("states", [None, ["dead"], []])
def test_there_may_be_nothing_to_purge(broker: Broker, states: Any) -> None:
    broker.configure("empty")
    assert broker.purge("empty", states=states) == 0


def test_no_states_purge_nothing(broker: Broker) -> None:
    broker.send("q", "x")
    assert broker.purge("q", states=[]) == 0
    assert depths(broker) == {"ready": 1}


def test_more_than_any_inner_batch_are_purged(broker: Broker) -> None:
    broker.send_many("q", list(range(2_300)))
    assert broker.purge("q") == 2_300
    assert depths(broker) == {}


def test_a_purged_queue_goes_on(broker: Broker) -> None:
    broker.configure("q", lease=77)
    broker.send("q", "x")
    broker.purge("q")
    broker.send("q", "y")
    assert drain(broker) == ["y"]
    assert broker.settings("q").lease_ms == 77_000


@pytest.mark.parametrize("states", [["nonsense"], ["ready", "nonsense"], "ready", [5]])
def test_an_unknown_state_purges_nothing(broker: Broker, states: Any) -> None:
    broker.send("q", "x")
    with pytest.raises(InvalidArgument):
        broker.purge("q", states=states)
    assert depths(broker) == {"ready": 1}
