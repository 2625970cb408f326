"""Calls that arrive together: each is answered for itself, and no message is held by two."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from rowq import Broker, IdTaken, Outcome, PayloadTooLarge, QueueFull
from tests.support.background import Background
from tests.support.life import depths, drain, ids, payloads

Answer = TypeVar("Answer")


def together(count: int, call: Callable[[int], Answer]) -> list[Background[Answer]]:
    return [Background(lambda number=number: call(number)) for number in range(count)]  # type: ignore[misc]


def test_every_sender_is_answered_with_an_id_of_its_own(broker: Broker) -> None:
    sent = [each.result() for each in together(40, lambda number: broker.send("q", number))]
    assert len(set(sent)) == 40
    assert sorted(drain(broker)) == list(range(40))


def test_a_bad_send_fails_alone(broker: Broker) -> None:
    broker.send("q", "x", id="taken")

    def send(number: int) -> str:
        if number % 4 == 1:
            return broker.send("q", number, id="taken")
        return broker.send("q", b"x" * 300_000 if number % 4 == 3 else number)

    for number, each in enumerate(together(40, send)):
        if number % 2 == 0:
            each.result()
        else:
            with pytest.raises((IdTaken, PayloadTooLarge)):
                each.result()
    first, *others = drain(broker)
    assert (first, sorted(others)) == ("x", list(range(0, 40, 2)))


def test_one_of_many_senders_of_an_own_id_wins(broker: Broker) -> None:
    def send(number: int) -> bool:
        try:
            broker.send("q", number, id="mine")
        except IdTaken:
            return False
        return True

    assert sum(each.result() for each in together(20, send)) == 1
    assert depths(broker) == {"ready": 1}


def test_senders_of_one_key_make_one_message(broker: Broker) -> None:
    sent = {each.result() for each in together(20, lambda number: broker.send("q", number, key="k"))}
    assert len(sent) == 1
    assert depths(broker) == {"ready": 1}


def test_senders_of_one_group_make_one_line(broker: Broker) -> None:
    for each in together(20, lambda number: broker.send("q", number, group="g")):
        each.result()
    assert depths(broker) == {"ready": 1, "blocked": 19}
    assert sorted(drain(broker)) == list(range(20))


def test_no_more_than_max_depth_are_taken(broker: Broker) -> None:
    broker.configure("q", max_depth=10)

    def send(number: int) -> bool:
        try:
            broker.send("q", number)
        except QueueFull:
            return False
        return True

    assert sum(each.result() for each in together(30, send)) == 10
    assert depths(broker) == {"ready": 10}


def test_no_message_is_given_to_two(broker: Broker) -> None:
    broker.send_many("q", list(range(100)))
    received = [payload for each in together(30, lambda number: broker.receive("q", max=5)) for payload in payloads(each.result())]
    assert sorted(received) == list(range(100))


def test_one_of_many_acks_of_a_delivery_is_done(broker: Broker) -> None:
    broker.send("q", "x")
    (delivery,) = broker.receive("q")
    outcomes = [each.result()[0] for each in together(20, lambda number: broker.ack_many([delivery]))]
    assert outcomes.count(Outcome.DONE) == 1


def test_order_holds_between_answered_sends(broker: Broker) -> None:
    sent: list[str] = []
    for number in range(5):
        sent.append(broker.send("q", number))
        for each in together(4, lambda _: broker.send("other", "noise")):
            each.result()
    assert ids(broker.receive("q", max=10)) == sent
