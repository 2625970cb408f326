"""Dead letters away for good: those named, those that match. A purge takes all."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import Broker, InvalidArgument, MessageNotFound, State, Where
from tests.support.life import bury, depths, state_of, take


def test_only_the_named_are_deleted(broker: Broker) -> None:
    a, b, c = (bury(broker, name) for name in "abc")
    elsewhere = bury(broker, "x", "p")
    alive = broker.send("q", "x")
    assert broker.delete_dead("q", ids=[c, a, c, elsewhere, alive, "nobody"]) == 2
    assert [state_of(broker, id) for id in (b, elsewhere, alive)] == [State.DEAD, State.DEAD, State.READY]
    for id in (a, c):
        with pytest.raises(MessageNotFound):
            broker.get(id)
        assert broker.audit(id)[-1].event == "deleted"


def test_those_that_match_are_deleted_the_oldest_first(broker: Broker) -> None:
    buried = [bury(broker, number, reason="odd" if number % 2 else "even") for number in range(6)]
    seen: list[int] = []
    assert broker.delete_dead("q", where=Where(error="odd"), limit=2, progress=seen.append) == 2
    assert seen[-1] == 2
    assert [message.id for message in broker.browse("q", state=State.DEAD)] == [buried[0], buried[2], buried[4], buried[5]]


def test_it_is_one_line_among_the_actions(broker: Broker) -> None:
    buried = [bury(broker, number) for number in range(3)]
    assert broker.delete_dead("q", ids=buried) == 3 and broker.delete_dead("q", ids=buried) == 0
    assert [(event.event, event.detail) for event in broker.actions("q")] == [("dead_deleted", "3 dead letters")]


class Interrupt(BaseException):
    """As a Ctrl-C is: no Exception."""


def test_what_is_broken_off_is_a_line_among_the_actions_too(broker: Broker) -> None:
    buried = [bury(broker, number) for number in range(2)]

    def break_off(count: int) -> None:
        raise Interrupt

    with pytest.raises(Interrupt):
        broker.delete_dead("q", ids=buried, progress=break_off)
    assert [(event.event, event.detail) for event in broker.actions("q")] == [("dead_deleted", "2 dead letters")]


def test_a_leased_dead_letter_is_left_alone(broker: Broker) -> None:
    id = bury(broker)
    delivery = take(broker, "q.dlq")
    assert broker.delete_dead("q", ids=[id]) == broker.delete_dead("q", where=Where(reason="rejected")) == 0
    broker.ack(delivery)


@pytest.mark.parametrize(
    "bad",
    [{}, {"where": Where()}, {"where": Where(error="")}, {"ids": "abc"}, {"where": {"reason": "rejected"}}, {"ids": ["x"], "limit": -1}],
)
def test_whoever_does_not_say_which_deletes_none(broker: Broker, bad: Any) -> None:
    bury(broker)
    with pytest.raises(InvalidArgument):
        broker.delete_dead("q", **bad)
    assert broker.delete_dead("q", ids=[]) == 0
    assert depths(broker) == {"dead": 1}
