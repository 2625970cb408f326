"""The payload of a message that could not be delivered is kept under the keys it names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rowq import Broker, KvEntry, ManualClock
from tests.support.life import bury, crash, drain, pass_time, take
from tests.support.row_names import row_name

DEATHS: dict[str, Callable[[Broker, ManualClock], object]] = {
    "last nack": lambda broker, clock: broker.nack(take(broker)),
    "last lease": crash,
    "reject": lambda broker, clock: broker.reject(take(broker)),
    "expiry": lambda broker, clock: pass_time(broker, clock, 101),
}


@pytest.mark.parametrize("die", DEATHS.values(), ids=DEATHS)
def test_a_dead_message_leaves_its_payload_under_its_keys(broker: Broker, clock: ManualClock, die: Callable[..., object]) -> None:
    id = broker.send("q", {"to": "ada"}, keys_if_undelivered=[["lost", 42], "plain"], max_attempts=1, ttl=100)
    assert broker.keys() == []
    die(broker, clock)
    entries = sorted(broker.keys(), key=lambda entry: len(entry.key))
    assert entries == [
        KvEntry(key=["plain"], value={"to": "ada"}, written_at=clock.now(), id=id),
        KvEntry(key=["lost", 42], value={"to": "ada"}, written_at=clock.now(), id=id),
    ]


def test_a_delivered_message_leaves_nothing(broker: Broker) -> None:
    broker.send("q", "x", keys_if_undelivered=["k"])
    broker.nack(take(broker), delay=0)
    broker.nack(take(broker), counts=False)
    drain(broker)
    assert broker.keys() == []


def test_a_deleted_or_purged_message_leaves_nothing(broker: Broker) -> None:
    broker.delete(broker.send("q", "x", keys_if_undelivered=["k"]))
    broker.send("q", "y", keys_if_undelivered=["k"])
    broker.purge("q")
    assert broker.keys() == []


@pytest.mark.parametrize("payload", [b"\x00bytes", "text", None, [1, 1.0], {"a": True}], ids=row_name)
def test_a_payload_is_kept_as_its_type(broker: Broker, payload: Any) -> None:
    bury(broker, payload, keys_if_undelivered=["k"])
    assert repr(broker.keys()[0].value) == repr(payload)


def test_the_last_payload_under_a_key_stays(broker: Broker) -> None:
    bury(broker, "first", keys_if_undelivered=["k"])
    second = bury(broker, "second", keys_if_undelivered=["k"])
    (entry,) = broker.keys()
    assert (entry.value, entry.id) == ("second", second)


PREFIXES: list[tuple[Any, set[tuple[str | int, ...]]]] = [
    ((), {("orders", 42), ("orders", "42"), ("orders", 42, "lines"), ("ord",), ("users", 1)}),
    (("orders",), {("orders", 42), ("orders", "42"), ("orders", 42, "lines")}),
    ("orders", {("orders", 42), ("orders", "42"), ("orders", 42, "lines")}),
    (["orders", 42], {("orders", 42), ("orders", 42, "lines")}),
    (["orders", "42"], {("orders", "42")}),
    (["orders", 4], set()),
    ("ord", {("ord",)}),
    ("%", set()),
    (["users", 1, 2], set()),
]


@pytest.mark.parametrize(("prefix", "expected"), PREFIXES, ids=row_name)
def test_keys_are_found_by_whole_parts_of_a_prefix(broker: Broker, prefix: Any, expected: set[tuple[str | int, ...]]) -> None:
    bury(broker, "x", keys_if_undelivered=[list(key) for key in PREFIXES[0][1]])
    assert {tuple(entry.key) for entry in broker.keys(prefix)} == expected


def test_a_key_is_forgotten_once(broker: Broker) -> None:
    bury(broker, "x", keys_if_undelivered=[["orders", 42], ["orders", "42"]])
    assert broker.forget(["orders", 42]) is True
    assert broker.forget(["orders", 42]) is False
    (left,) = broker.keys()
    assert left.key == ["orders", "42"]


def test_a_key_of_one_part_is_forgotten_by_either_spelling(broker: Broker) -> None:
    bury(broker, "x", keys_if_undelivered=["a", ["b"]])
    assert broker.forget(["a"]) and broker.forget("b")
    assert broker.keys() == []


def test_keys_stay_when_the_dead_letter_is_gone(broker: Broker) -> None:
    broker.delete(bury(broker, "x", keys_if_undelivered=["k"]))
    (entry,) = broker.keys()
    assert entry.value == "x"
