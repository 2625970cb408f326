"""What is sent comes back as the same type, or is refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from rowq import Broker, InvalidArgument
from tests.support.life import depths, take
from tests.support.row_names import told_with

ALIKE: list[Any] = [
    b"",
    b"\x00\xff\xfe plain",
    b'{"looks": "like JSON"}',
    "",
    "text",
    '{"looks": "like JSON"}',
    "ünïcödé ☃ 𝄞 \u0000 \n\t\"'\\",
    0,
    -1,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    0.0,
    -0.0,
    1.0,
    0.1,
    1e300,
    5e-324,
    True,
    False,
    None,
    [],
    {},
    [1, 1.0, True, None, "1", [[]]],
    {"": 0, "ключ": {"nested": [{"deep": None}]}, "a.b": 1.0},
]

NO_JSON: list[Any] = [
    float("nan"),
    float("inf"),
    float("-inf"),
    [1, float("nan")],
    {"a": {"b": float("inf")}},
    [b"bytes inside JSON"],
    {"a": b"bytes inside JSON"},
    {1: "a key that is no string"},
    {None: 1},
    {"a", "set"},
    object(),
    [object()],
    datetime(2024, 1, 1),
    {"at": datetime(2024, 1, 1)},
    1 + 2j,
]


def test_a_payload_is_read_and_delivered_as_it_was_sent(broker: Broker) -> None:
    for payload in ALIKE:
        with told_with(payload):
            id = broker.send("q", payload)
            (browsed,) = broker.browse("q")
            delivery = take(broker)
            # repr tells 1 from 1.0 and True, and 0.0 from -0.0, which == does not
            assert repr(broker.get(id).payload) == repr(browsed.payload) == repr(delivery.payload) == repr(payload)
            broker.ack(delivery)


def test_a_batch_of_every_kind_comes_back_in_order(broker: Broker) -> None:
    broker.send_many("q", ALIKE)
    assert repr([delivery.payload for delivery in broker.receive("q", max=1000)]) == repr(ALIKE)


def test_what_is_no_json_is_refused_and_not_written(broker: Broker) -> None:
    for payload in NO_JSON:
        with told_with(payload):
            with pytest.raises(InvalidArgument):
                broker.send("q", payload)
            assert depths(broker) == {} and broker.queues() == []


def test_a_tuple_comes_back_as_a_list(broker: Broker) -> None:
    broker.send("q", (1, ("two", None)))
    assert take(broker).payload == [1, ["two", None]]


def test_an_integer_of_any_size_comes_back_exactly_or_is_refused(broker: Broker) -> None:
    try:
        broker.send("q", [10**30])
    except InvalidArgument:
        assert depths(broker) == {}
    else:
        assert repr(take(broker).payload) == repr([10**30])


def test_a_text_that_is_no_unicode_comes_back_exactly_or_is_refused(broker: Broker) -> None:
    try:
        broker.send("q", "\ud800")
    except InvalidArgument:
        assert depths(broker) == {}
    else:
        assert take(broker).payload == "\ud800"


def test_a_payload_that_contains_itself_is_refused(broker: Broker) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidArgument):
        broker.send("q", loop)
    assert depths(broker) == {}


def test_a_payload_changed_after_sending_was_sent_as_it_stood(broker: Broker) -> None:
    payload = {"to": "ada"}
    broker.send("q", payload)
    payload["to"] = "bob"
    assert take(broker).payload == {"to": "ada"}
