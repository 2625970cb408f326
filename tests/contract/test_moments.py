"""Due at a moment that the sender names, by the clock of the database and not by its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rowq import Broker, Draft, InvalidArgument, ManualClock, State
from rowq.model.duration import to_moment
from tests.support.life import comes_after, depths, drain, state_of, take

HOUR = timedelta(hours=1)


def now(clock: ManualClock) -> datetime:
    return to_moment(clock.now())


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=45)), timezone(-11 * HOUR)])
def test_a_message_comes_at_its_moment_and_not_sooner(broker: Broker, clock: ManualClock, zone: timezone) -> None:
    """Over HTTP the clock of this process is years ahead of the server's: the moment is the one that was named."""
    message = broker.get(broker.send("q", "x", at=(now(clock) + HOUR).astimezone(zone)))
    assert (message.state, message.due_at) == (State.SCHEDULED, clock.now() + 3_600_000)
    assert comes_after(broker, clock, 3_600).attempt == 1


@pytest.mark.parametrize("ago", [timedelta(0), timedelta(microseconds=1), HOUR, timedelta(days=30_000)])
def test_a_moment_in_the_past_is_now(broker: Broker, clock: ManualClock, ago: timedelta) -> None:
    assert state_of(broker, broker.send("q", "x", at=now(clock) - ago)) is State.READY
    assert take(broker).payload == "x"


def test_less_than_a_millisecond_ahead_is_not_now(broker: Broker, clock: ManualClock) -> None:
    assert broker.get(broker.send("q", "x", at=now(clock) + timedelta(microseconds=1))).due_at == clock.now() + 1


def test_each_draft_has_its_own(broker: Broker, clock: ManualClock) -> None:
    later, sooner, at_once = Draft("later", at=now(clock) + 2 * HOUR), Draft("sooner", at=now(clock) + HOUR), "at once"
    broker.send_many("q", [later, sooner, at_once])
    assert drain(broker) == ["at once"]
    for expected in ("sooner", "later"):
        clock.advance(3_600)
        assert drain(broker) == [expected]


def test_its_ttl_begins_at_its_moment(broker: Broker, clock: ManualClock) -> None:
    message = broker.get(broker.send("q", "x", at=now(clock) + HOUR, ttl=60))
    assert message.expires_at == clock.now() + 3_660_000


def test_it_holds_its_group_back_until_then(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", [Draft("head", group="g", at=now(clock) + HOUR), Draft("follower", group="g")])
    assert drain(broker) == []
    clock.advance(3_600)
    assert drain(broker) == ["head", "follower"]


def test_a_moment_lies_as_far_ahead_as_a_delay_lasts(broker: Broker, clock: ManualClock) -> None:
    furthest = now(clock) + timedelta(days=366)
    assert broker.get(broker.send("q", "x", at=furthest)).due_at == clock.now() + 366 * 86_400_000
    for beyond in (furthest + timedelta(milliseconds=1), datetime.max.replace(tzinfo=UTC)):
        with pytest.raises(InvalidArgument, match=r"366 days|at_ms"):
            broker.send("q", "x", at=beyond)
    with pytest.raises(InvalidArgument, match=r"position 1: at must be within 366 days"):
        broker.send_many("q", ["x", Draft("y", at=furthest + HOUR)])
    assert depths(broker) == {"scheduled": 1}


def test_a_moment_without_a_timezone_is_refused_with_the_way_out(broker: Broker) -> None:
    with pytest.raises(InvalidArgument, match=r"at needs a timezone: give datetime\(…, tzinfo=UTC\)"):
        broker.send("q", "x", at=datetime(2023, 12, 24, 18))
    assert broker.queues() == []


def test_a_moment_and_a_delay_contradict_each_other(broker: Broker, clock: ManualClock) -> None:
    with pytest.raises(InvalidArgument, match="give delay or at, not both"):
        broker.send("q", "x", at=now(clock) + HOUR, delay=5)
    assert broker.queues() == []
