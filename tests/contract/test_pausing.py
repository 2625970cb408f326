"""A paused queue hands out nothing new; all else goes on."""

from __future__ import annotations

from rowq import Broker, ManualClock, State
from tests.support.harness import Harness
from tests.support.life import depths, drain, is_silent, state_of, take


def test_a_paused_queue_hands_out_nothing(broker: Broker) -> None:
    broker.send("q", "x")
    broker.pause("q")
    assert is_silent(broker)
    assert depths(broker) == {"ready": 1}


def test_a_paused_queue_hands_out_nothing_however_often_it_is_asked(broker: Broker) -> None:
    broker.send_many("q", ["delivered", "waiting"])
    take(broker)
    broker.pause("q")
    assert [is_silent(broker) for _ in range(4)] == [True] * 4


def test_a_resumed_queue_goes_on(broker: Broker) -> None:
    broker.send("q", "x")
    broker.pause("q")
    broker.resume("q")
    assert take(broker).attempt == 1


def test_a_paused_queue_takes_messages(broker: Broker) -> None:
    broker.configure("q")
    broker.pause("q")
    broker.send_many("q", [1, 2])
    broker.resume("q")
    assert drain(broker) == [1, 2]


def test_what_is_in_flight_is_settled_in_a_paused_queue(broker: Broker) -> None:
    broker.send_many("q", ["ack", "nack", "extend"])
    ack, nack, extend = broker.receive("q", max=3)
    broker.pause("q")
    broker.ack(ack)
    broker.nack(nack)
    broker.extend(extend, 60)
    assert depths(broker) == {"scheduled": 1, "leased": 1}


def test_leases_run_on_in_a_paused_queue(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    take(broker)
    broker.pause("q")
    clock.advance(40)
    broker.maintain()
    assert state_of(broker, id) == State.READY
    broker.resume("q")
    assert take(broker).attempt == 2


def test_messages_expire_in_a_paused_queue(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", ttl=10)
    broker.pause("q")
    clock.advance(11)
    broker.maintain()
    assert depths(broker) == {"dead": 1}


def test_a_pause_is_seen(broker: Broker) -> None:
    broker.send("q", "x")
    assert broker.stats("q").paused is False
    broker.pause("q")
    assert broker.stats("q").paused is True
    assert broker.settings("q").paused is True
    assert [stats.paused for stats in broker.queues()] == [True]
    broker.resume("q")
    assert broker.stats("q").paused is False


def test_pausing_and_resuming_twice_is_no_error(broker: Broker) -> None:
    broker.configure("q")
    broker.pause("q")
    broker.pause("q")
    broker.resume("q")
    broker.resume("q")
    broker.send("q", "x")
    assert drain(broker) == ["x"]


def test_other_queues_are_not_paused(broker: Broker) -> None:
    broker.configure("q")
    broker.pause("q")
    broker.send("p", "x")
    assert drain(broker, "p") == ["x"]


def test_a_pause_leaves_other_settings_alone(broker: Broker) -> None:
    broker.configure("q", lease=77)
    broker.pause("q")
    broker.resume("q")
    assert broker.settings("q").lease_ms == 77_000


def test_configuring_pauses_too(broker: Broker) -> None:
    broker.send("q", "x")
    broker.configure("q", paused=True)
    assert is_silent(broker)
    broker.configure("q", paused=None)
    assert drain(broker) == ["x"]


def test_a_pause_outlives_the_process(harness: Harness) -> None:
    harness.broker.send("q", "x")
    harness.broker.pause("q")
    assert is_silent(harness.reopen())
