"""Not before its time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowq import Broker, ManualClock, State
from tests.support.life import comes_after, depths, drain, is_silent, state_of, take


@pytest.mark.parametrize("delay", [60, 60.0, timedelta(minutes=1)])
def test_a_delayed_message_is_scheduled(broker: Broker, clock: ManualClock, delay: Any) -> None:
    message = broker.get(broker.send("q", "x", delay=delay))
    assert (message.state, message.due_at) == (State.SCHEDULED, clock.now() + 60_000)
    assert depths(broker) == {"scheduled": 1}


def test_a_delayed_message_comes_when_due_and_not_sooner(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", delay=60)
    assert comes_after(broker, clock, 60).attempt == 1


def test_a_delay_of_nothing_is_ready(broker: Broker) -> None:
    assert state_of(broker, broker.send("q", "x", delay=0)) == State.READY


def test_a_delay_may_be_a_fraction_or_a_year(broker: Broker, clock: ManualClock) -> None:
    short, long = broker.send("q", "short", delay=0.25), broker.send("q", "long", delay=timedelta(days=366))
    assert broker.get(short).due_at == clock.now() + 250
    clock.advance(366 * 86_400 - 1)
    assert take(broker).id == short
    clock.advance(1)
    assert long in [delivery.id for delivery in broker.receive("q", max=10)]


def test_a_delayed_message_does_not_hold_up_others(broker: Broker) -> None:
    broker.send("q", "later", delay=60)
    broker.send("q", "now")
    assert take(broker).payload == "now"
    assert is_silent(broker)


def test_many_come_due_together(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", list(range(1_500)), delay=10)
    clock.advance(10)
    assert drain(broker) == list(range(1_500))


def test_maintenance_makes_due_messages_ready(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", [1, 2], delay=10)
    broker.send("q", 3, delay=100)
    clock.advance(10)
    assert broker.maintain().due == 2
    assert depths(broker) == {"ready": 2, "scheduled": 1}


def test_the_lease_of_a_delayed_message_begins_at_its_delivery(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", delay=60)
    clock.advance(500)
    assert take(broker).lease_until == clock.now() + 30_000
