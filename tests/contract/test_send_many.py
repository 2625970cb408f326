"""Many messages in one call: all of them, in order, or none."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import Broker, Draft, IdTaken, InvalidArgument, PayloadRejected, PayloadTooLarge, QueueFull, RowqError
from tests.support.life import depths, drain, ids, payloads


def test_many_are_sent_in_order(broker: Broker) -> None:
    sent = broker.send_many("q", ["a", "b", "c"])
    deliveries = broker.receive("q", max=10)
    assert ids(deliveries) == sent
    assert payloads(deliveries) == ["a", "b", "c"]


def test_none_are_sent_without_complaint(broker: Broker) -> None:
    assert broker.send_many("q", []) == []
    assert depths(broker) == {}


def test_more_than_any_inner_batch_are_sent_in_one_call(broker: Broker) -> None:
    sent = broker.send_many("q", list(range(2_500)))
    assert len(set(sent)) == 2_500 and sorted(sent) == sent
    assert drain(broker) == list(range(2_500))


def test_drafts_carry_options_of_their_own(broker: Broker) -> None:
    broker.send_many("q", [Draft("low"), Draft("high", priority=5, headers={"h": "1"}), Draft("later", delay=60)])
    assert depths(broker) == {"ready": 2, "scheduled": 1}
    first, second = broker.receive("q", max=10)
    assert (first.payload, first.headers, first.priority) == ("high", {"h": "1"}, 5)
    assert (second.payload, second.headers, second.priority) == ("low", {}, 0)


def test_options_of_the_call_hold_for_every_plain_payload(broker: Broker) -> None:
    broker.send_many("q", ["a", "b"], priority=3, headers={"h": "1"})
    assert [(message.priority, message.headers) for message in broker.browse("q")] == [(3, {"h": "1"})] * 2


def test_a_draft_beats_the_options_of_the_call(broker: Broker) -> None:
    a, b = broker.send_many("q", ["plain", Draft("draft", priority=9)], priority=3)
    assert (broker.get(a).priority, broker.get(b).priority) == (3, 9)


def test_drafts_and_payloads_may_be_mixed(broker: Broker) -> None:
    broker.send_many("q", [b"bytes", Draft({"a": 1}), None, Draft(None)])
    assert payloads(broker.receive("q", max=10)) == [b"bytes", {"a": 1}, None, None]


BAD: dict[str, tuple[Any, type[RowqError]]] = {
    "no JSON": (float("nan"), InvalidArgument),
    "no JSON in a draft": (Draft(object()), InvalidArgument),
    "too large": (b"x" * (256 * 1024 + 1), PayloadTooLarge),
    "negative delay": (Draft("x", delay=-1), InvalidArgument),
    "negative ttl": (Draft("x", ttl=-1), InvalidArgument),
    "empty key": (Draft("x", key=""), InvalidArgument),
    "empty group": (Draft("x", group=""), InvalidArgument),
    "own id with a blank": (Draft("x", id="a b"), InvalidArgument),
    "headers that are no text": (Draft("x", headers={"a": 1}), InvalidArgument),  # type: ignore[dict-item]
    "priority that is no number": (Draft("x", priority="high"), InvalidArgument),  # type: ignore[arg-type]
    "own id twice": (Draft("x", id="first"), IdTaken),
}


@pytest.mark.parametrize(("bad", "error"), BAD.values(), ids=BAD)
def test_one_bad_message_stops_all_and_is_named_by_its_position(broker: Broker, bad: Any, error: type[RowqError]) -> None:
    with pytest.raises(error, match=r"position 2\b"):
        broker.send_many("q", [Draft("a", id="first"), "b", bad, "d"])
    assert depths(broker) == {} and broker.queues() == []


def test_the_first_bad_message_is_the_one_named(broker: Broker) -> None:
    with pytest.raises(InvalidArgument, match=r"position 1\b"):
        broker.send_many("q", ["a", float("nan"), "c", object()])


def test_a_bad_one_beyond_any_inner_batch_stops_all(broker: Broker) -> None:
    with pytest.raises(InvalidArgument, match=r"position 2400\b"):
        broker.send_many("q", [*range(2_400), float("nan")])
    assert depths(broker) == {}


def test_an_id_taken_earlier_stops_all(broker: Broker) -> None:
    broker.send("q", "x", id="mine")
    with pytest.raises(IdTaken, match=r"position 1\b"):
        broker.send_many("q", ["a", Draft("b", id="mine")])
    assert drain(broker) == ["x"]


def test_a_payload_that_breaks_the_schema_stops_all(broker: Broker) -> None:
    broker.configure("q", schema={"type": "string"})
    with pytest.raises(PayloadRejected, match=r"position 1\b"):
        broker.send_many("q", ["a", 5])
    assert depths(broker) == {}


def test_a_full_queue_takes_none_of_them(broker: Broker) -> None:
    broker.configure("q", max_depth=3)
    broker.send("q", "first")
    with pytest.raises(QueueFull):
        broker.send_many("q", ["a", "b", "c"])
    assert depths(broker) == {"ready": 1}


def test_a_failed_call_changes_no_waiting_message_of_its_keys(broker: Broker) -> None:
    id = broker.send("q", "old", key="k")
    with pytest.raises(InvalidArgument):
        broker.send_many("q", [Draft("new", key="k"), float("nan")])
    assert broker.get(id).payload == "old"
