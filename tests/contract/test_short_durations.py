"""A duration that is shorter than a millisecond is one: 0 would mean "without end"."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowq import Broker, ManualClock, State
from tests.support.life import pass_time, state_of, take

SHORT = [0.0004, 1e-9, timedelta(microseconds=1)]


@pytest.mark.parametrize("short", SHORT)
def test_a_setting_is_not_switched_off_by_it(broker: Broker, short: float | timedelta) -> None:
    for setting in ("ttl", "retention", "audit_retention", "dlq_ttl"):
        broker.configure("q", **{setting: short})  # type: ignore[arg-type]
        assert getattr(broker.settings("q"), f"{setting}_ms") == 1


@pytest.mark.parametrize("short", SHORT)
def test_a_message_expires_at_once_and_does_not_live_for_ever(broker: Broker, clock: ManualClock, short: float | timedelta) -> None:
    id = broker.send("q", "x", ttl=short)
    pass_time(broker, clock, 1)
    assert state_of(broker, id) is State.DEAD


def test_a_delay_is_not_nothing(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", delay=0.0001)
    assert state_of(broker, id) is State.SCHEDULED
    clock.advance(0.001)
    assert take(broker).id == id


def test_zero_is_still_zero(broker: Broker) -> None:
    broker.configure("q", ttl=0)
    assert broker.settings("q").ttl_ms == 0
