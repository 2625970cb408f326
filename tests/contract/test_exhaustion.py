"""What becomes of a message that used up its attempts is the queue's choice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rowq import Broker, ManualClock, State
from tests.support.life import assert_gone, crash, depths, ids, is_silent, take

Use = Callable[[Broker, ManualClock], None]


def fail(broker: Broker, clock: ManualClock) -> None:
    broker.nack(take(broker), reason="boom")


every_use = pytest.mark.parametrize("use", [fail, crash])


def used_up(broker: Broker, clock: ManualClock, use: Use, on_exhausted: str) -> str:
    broker.configure("q", max_attempts=1, on_exhausted=on_exhausted)  # type: ignore[arg-type]
    id = broker.send("q", {"to": "ada"})
    use(broker, clock)
    assert is_silent(broker)
    return id


@every_use
def test_dead_makes_a_dead_letter(broker: Broker, clock: ManualClock, use: Use) -> None:
    message = broker.get(used_up(broker, clock, use, "dead"))
    assert (message.state, message.reason) == (State.DEAD, "max_attempts_reached")


@every_use
def test_fail_keeps_the_message_as_failed(broker: Broker, clock: ManualClock, use: Use) -> None:
    id = used_up(broker, clock, use, "fail")
    message = broker.get(id)
    assert (message.state, message.outcome, message.payload) == (State.FINISHED, "failed", {"to": "ada"})
    assert (message.finished_at, message.attempts) == (clock.now(), 1)
    assert ids(broker.browse("q", state="finished")) == [id]
    assert depths(broker) == {"finished": 1}


@every_use
def test_delete_leaves_nothing(broker: Broker, clock: ManualClock, use: Use) -> None:
    assert_gone(broker, used_up(broker, clock, use, "delete"))
    assert depths(broker) == {}


def test_a_failed_message_is_kept_until_retention(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", retention=100)
    id = used_up(broker, clock, fail, "fail")
    clock.advance(99)
    broker.maintain()
    assert broker.get(id).outcome == "failed"
    clock.advance(2)
    broker.maintain()
    assert_gone(broker, id)


def test_a_failed_message_tells_its_last_error(broker: Broker, clock: ManualClock) -> None:
    assert broker.get(used_up(broker, clock, fail, "fail")).error == "boom"


def test_a_failed_message_is_not_redriven(broker: Broker, clock: ManualClock) -> None:
    used_up(broker, clock, fail, "fail")
    assert broker.redrive("q") == 0
