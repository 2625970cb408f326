"""Somebody sets the clock that counts, by an hour: leases and delays end earlier or later, and nothing else happens."""

from __future__ import annotations

import pytest

from rowq import Broker, LeaseLost, ManualClock
from tests.support.life import drain, is_silent, take

HOUR = 3600


def test_a_clock_that_is_set_forward_ends_leases_and_delays_and_loses_nothing(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "leased")
    held = take(broker)
    broker.send("q", "delayed", delay=60)
    broker.send("q", "ready")
    clock.advance(HOUR)
    again = take(broker)
    assert (again.id, again.attempt) == (held.id, 2)
    with pytest.raises(LeaseLost):
        broker.ack(held)
    broker.ack(again)
    assert sorted(drain(broker)) == ["delayed", "ready"]


def test_a_clock_that_is_set_back_makes_leases_and_delays_last_and_loses_nothing(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", ["held", "left"])
    held, left = broker.receive("q", max=2)
    broker.send("q", "delayed", delay=60)
    broker.send("q", "ready")
    clock.advance(-HOUR)
    later = broker.send("q", "later")
    assert later not in (held.id, left.id)
    assert sorted(drain(broker)) == ["later", "ready"]
    assert is_silent(broker)
    broker.ack(held)
    clock.advance(HOUR + 61)
    assert sorted(drain(broker)) == ["delayed", "left"]


def test_a_group_stays_in_order_whatever_the_clock_does(broker: Broker, clock: ManualClock) -> None:
    """One that stood behind others when the clock was set back waits until it is as late again as when it was sent."""
    for number, jump in enumerate([0, -HOUR, 2 * HOUR, -HOUR]):
        clock.advance(jump)
        broker.send("q", number, group="g")
    assert drain(broker) == [0, 1]
    clock.advance(HOUR)
    assert drain(broker) == [2, 3]
