"""What ends the tries of a message: its attempts and, where a nack says so, its deadline."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import Broker, InvalidArgument, ManualClock, Outcome, State
from tests.support.life import state_of, take


def test_until_its_deadline_a_message_is_tried_again_and_again(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", max_attempts=0, backoff=[60])
    id = broker.send("q", "x", deadline=10)
    for attempt in range(1, 5):
        delivery = take(broker)
        assert delivery.attempt == attempt
        broker.nack(delivery, reason="not yet", limit="deadline", delay=0)
    delivery = take(broker)
    clock.advance(9)
    assert broker.nack_many([delivery], limit="deadline", delay=0.5) == [Outcome.DONE]
    clock.advance(1)
    broker.nack(take(broker), reason="too late", limit="deadline")
    assert (state_of(broker, id), broker.get(id).reason) == (State.DEAD, "deadline_exceeded")


def test_the_attempts_and_the_backoff_of_the_queue_stand(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", max_attempts=2, backoff=[60])
    id = broker.send("q", "x", deadline=100)
    broker.nack(take(broker), limit="deadline")
    assert state_of(broker, id) == State.SCHEDULED
    clock.advance(60)
    broker.nack(take(broker), limit="deadline")
    assert (state_of(broker, id), broker.get(id).reason) == (State.DEAD, "max_attempts_reached")


def test_the_deadline_comes_before_the_attempts(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", max_attempts=5)
    id = broker.send("q", "x", deadline=10)
    delivery = take(broker, lease=5)
    clock.advance(4)
    broker.extend(delivery, 60)
    clock.advance(6)
    assert broker.nack_many([delivery], limit="deadline") == [Outcome.DONE]
    assert (state_of(broker, id), broker.get(id).reason) == (State.DEAD, "deadline_exceeded")


def test_without_a_limit_of_attempts_the_backoff_of_the_queue_still_applies(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", max_attempts=0, backoff=[60])
    id = broker.send("q", "x", deadline=200)
    for attempt in (1, 2):
        delivery = take(broker)
        assert delivery.attempt == attempt
        broker.nack(delivery, limit="deadline")
        assert state_of(broker, id) == State.SCHEDULED
        clock.advance(60)


def test_the_backoff_of_the_sender_stands(broker: Broker) -> None:
    broker.configure("q", max_attempts=0)
    id = broker.send("q", "x", backoff=[60])
    broker.nack(take(broker), limit="deadline")
    assert state_of(broker, id) == State.SCHEDULED


def test_the_senders_own_limit_stands(broker: Broker) -> None:
    id = broker.send("q", "x", max_attempts=1)
    broker.nack(take(broker), limit="deadline")
    assert (state_of(broker, id), broker.get(id).reason) == (State.DEAD, "max_attempts_reached")


@pytest.mark.parametrize("bad", ["never", "", None, 3, ["attempts"]])
def test_another_limit_is_refused(broker: Broker, bad: Any) -> None:
    id = broker.send("q", "x")
    delivery = take(broker)
    with pytest.raises(InvalidArgument, match="limit"):
        broker.nack(delivery, limit=bad)
    with pytest.raises(InvalidArgument, match="limit"):
        broker.nack_many([delivery], limit=bad)
    assert state_of(broker, id) == State.LEASED
