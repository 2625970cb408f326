"""throughput_limit: so many messages a second, fewer are returned."""

from __future__ import annotations

from rowq import Broker, ManualClock
from tests.support.life import drain, is_silent


def test_no_more_than_the_limit_come_in_one_second(broker: Broker) -> None:
    broker.configure("q", throughput_limit=5)
    broker.send_many("q", list(range(20)))
    assert 1 <= len(drain(broker)) <= 5
    assert is_silent(broker)


def test_more_come_as_time_goes_on(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", throughput_limit=5)
    broker.send_many("q", list(range(20)))
    received: list[int] = []
    for second in range(1, 30):
        received += drain(broker)
        assert len(received) <= 5 * (second + 1)
        clock.advance(1)
    assert received == list(range(20))


def test_a_quiet_hour_is_not_saved_up(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", throughput_limit=5)
    broker.send_many("q", list(range(50)))
    drain(broker)
    clock.advance(3_600)
    assert len(drain(broker)) <= 10


def test_other_queues_are_not_limited(broker: Broker) -> None:
    broker.configure("q", throughput_limit=1)
    broker.send_many("p", list(range(20)))
    assert len(drain(broker, "p")) == 20


def test_a_limit_is_lifted(broker: Broker) -> None:
    broker.configure("q", throughput_limit=1)
    broker.send_many("q", list(range(20)))
    drain(broker)
    broker.configure("q", throughput_limit=0)
    assert len(drain(broker)) >= 19


def test_an_empty_receive_uses_nothing_up(broker: Broker) -> None:
    broker.configure("q", throughput_limit=5)
    broker.receive("q", max=100)
    broker.send_many("q", list(range(5)))
    assert drain(broker) == list(range(5))
