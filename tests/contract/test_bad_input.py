"""Every bad argument: the typed error, its code, a message, and nothing written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from rowq import Broker, InvalidArgument, MessageNotFound, Where
from tests.support.life import depths, history_of, take
from tests.support.row_names import row_name, told_with

Call = Callable[[Any, Any], object]

BAD_NAMES: list[Any] = ["", " ", "a b", "a/b", "ü", "x" * 65, "q\n", "q\x00", "*", None, 5, b"q", ["q"]]

BY_NAME: dict[str, Call] = {
    "send": lambda broker, name: broker.send(name, "x"),
    "send_many": lambda broker, name: broker.send_many(name, ["x"]),
    "receive": lambda broker, name: broker.receive(name),
    "browse": lambda broker, name: broker.browse(name),
    "stats": lambda broker, name: broker.stats(name),
    "configure": lambda broker, name: broker.configure(name, lease=5),
    "settings": lambda broker, name: broker.settings(name),
    "delete_queue": lambda broker, name: broker.delete_queue(name),
    "pause": lambda broker, name: broker.pause(name),
    "resume": lambda broker, name: broker.resume(name),
    "purge": lambda broker, name: broker.purge(name),
    "redrive": lambda broker, name: broker.redrive(name),
}


def assert_refused(broker: Broker, call: Callable[[], object], code: str = "invalid_argument") -> None:
    """An InvalidArgument that says something, and a database as it was before."""
    before = broker.queues()
    with pytest.raises(InvalidArgument) as error:
        call()
    assert error.value.code == code
    assert len(str(error.value)) > 10
    assert broker.queues() == before


@pytest.mark.parametrize("verb", BY_NAME)
def test_a_malformed_name_is_no_queue(broker: Broker, verb: str) -> None:
    for name in BAD_NAMES:
        with told_with(name):
            assert_refused(broker, partial(BY_NAME[verb], broker, name))


BAD_DURATIONS: list[Any] = [
    -1,
    -0.001,
    timedelta(seconds=-1),
    366 * 86_400 + 1,
    timedelta(days=367),
    1e300,
    float("nan"),
    float("inf"),
    1e306,
    10**400,
    True,
    "5",
    [5],
    b"5",
]
BAD_TEXTS: list[Any] = ["", "x" * 256, 5, b"k", ["k"], True]

BAD_OPTIONS: dict[str, list[Any]] = {
    "delay": BAD_DURATIONS,
    "at": [datetime(2030, 1, 1), datetime(2300, 1, 1, tzinfo=UTC), date(2030, 1, 1), "2030-01-01T00:00Z", 1_700_000_000_000, True],
    "ttl": BAD_DURATIONS,
    "deadline": BAD_DURATIONS,
    "key": BAD_TEXTS,
    "group": BAD_TEXTS,
    "id": ["", "x" * 129, "a b", "a/b", "ü", "a\n", 5, b"id"],
    "priority": [1.5, "1", None, True, [1], 10**30, -(10**30)],
    "max_attempts": [-1, 1.5, "5", True, 10**30],
    "backoff": [5, "fast", [-1], ["1"], [None], [True], [float("nan")], [366 * 86_400 + 1], {"kind": "list"}, object()],
    "headers": [
        {"a": 1},
        {1: "a"},
        {"a": None},
        {"a": b"x"},
        [("a", "b")],
        "a=b",
        5,
        {"a": "x" * 33_000},
        {f"key-{n}": "x" * 100 for n in range(400)},
    ],
    "keys_if_undelivered": [5, [5.5], [None], [[]], [""], [[None]], [["a", 1.5]], [[b"a"]], [["a", True]]],
}


@pytest.mark.parametrize("option", BAD_OPTIONS)
def test_a_bad_option_of_a_send_is_refused(broker: Any, option: str) -> None:
    for value in BAD_OPTIONS[option]:
        with told_with(value):
            assert_refused(broker, partial(broker.send, "q", "x", **{option: value}))
            assert_refused(broker, partial(broker.send_many, "q", ["x"], **{option: value}))
            assert broker.queues() == []


def test_an_unknown_option_of_a_send_is_refused(broker: Any) -> None:
    for send in (partial(broker.send, "q", "x"), partial(broker.send_many, "q", ["x"])):
        with pytest.raises((InvalidArgument, TypeError)):
            send(colour="red")
    assert broker.queues() == []


BAD_RECEIVES: dict[str, list[Any]] = {
    "max": [0, -1, 1_001, 1.5, "1", True, None, 10**30],
    "wait": [-1, -0.1, 3_601, float("nan"), float("inf"), "1", True, timedelta(hours=2)],
    "lease": [0, *BAD_DURATIONS],
    "consumer": [5, b"worker", ["worker"], True],
    "delivery": ["exactly_once", "", 5, True],
}


@pytest.mark.parametrize("option", BAD_RECEIVES)
def test_a_bad_option_of_a_receive_takes_nothing(broker: Any, option: str) -> None:
    broker.send("q", "x")
    for value in BAD_RECEIVES[option]:
        with told_with(value):
            assert_refused(broker, partial(broker.receive, "q", **{option: value}))
            assert depths(broker) == {"ready": 1}


BAD_REASONS: list[Any] = [5, b"boom", ["boom"]]

BAD_SETTLES: dict[tuple[str, str], list[Any]] = {
    ("nack", "delay"): BAD_DURATIONS,
    ("nack", "reason"): BAD_REASONS,
    ("nack", "counts"): ["no", 1, None],
    ("reject", "reason"): BAD_REASONS,
    ("reschedule", "delay"): [*BAD_DURATIONS, None],
    ("reschedule", "reason"): BAD_REASONS,
    ("extend", "lease"): [0, *BAD_DURATIONS],
}
NEEDED = {"reschedule": {"delay": 5}}


@pytest.mark.parametrize(("verb", "option"), BAD_SETTLES, ids=row_name)
def test_a_bad_option_of_a_settle_leaves_the_lease_as_it_was(broker: Broker, verb: str, option: str) -> None:
    id = broker.send("q", "x")
    delivery = take(broker)
    before, told = broker.get(id), history_of(broker, id)
    for value in BAD_SETTLES[verb, option]:
        options = {**NEEDED.get(verb, {}), option: value}
        assert_refused(broker, partial(getattr(broker, verb), delivery, **options))
        assert_refused(broker, partial(getattr(broker, f"{verb}_many"), [delivery], **options))
    assert (broker.get(id), history_of(broker, id)) == (before, told)
    broker.ack(delivery)


BAD_CALLS: dict[str, Callable[[Any], object]] = {
    "send_many of a text": lambda broker: broker.send_many("q", "text"),
    "send_many of bytes": lambda broker: broker.send_many("q", b"bytes"),
    "send_many of a dict": lambda broker: broker.send_many("q", {"a": 1}),
    "send_many of a number": lambda broker: broker.send_many("q", 5),
    "send_many of None": lambda broker: broker.send_many("q", None),
    "redrive ids of a text": lambda broker: broker.redrive("q", ids="abc"),
    "redrive ids that are no text": lambda broker: broker.redrive("q", ids=[5]),
    "redrive where of a dict": lambda broker: broker.redrive("q", where={"reason": "rejected"}),
    "redrive where of wrong types": lambda broker: broker.redrive("q", where="rejected"),
    "keys of a number": lambda broker: broker.keys(5),
    "keys of None inside": lambda broker: broker.keys([None]),
    "forget nothing": lambda broker: broker.forget([]),
    "forget a number": lambda broker: broker.forget(5),
}


def test_a_bad_argument_is_refused(broker: Broker) -> None:
    for what, call in BAD_CALLS.items():
        with told_with(what):
            assert_refused(broker, partial(call, broker))


@pytest.mark.parametrize("verb", ["get", "delete", "audit"])
def test_what_is_no_text_is_no_id(broker: Any, verb: str) -> None:
    for id in (None, 5, b"id", ["id"]):
        with told_with(id), pytest.raises((InvalidArgument, MessageNotFound)):
            getattr(broker, verb)(id)


@pytest.mark.parametrize("option", ["delay", "ttl", "deadline"])
def test_the_longest_duration_is_366_days(broker: Any, option: str) -> None:
    broker.send("q", "x", **{option: 366 * 86_400})


@pytest.mark.parametrize("option", ["key", "group"])
def test_the_longest_key_has_255_characters(broker: Any, option: str) -> None:
    broker.send("q", "x", **{option: "ü" * 255})
    assert getattr(take(broker), option) == "ü" * 255


def test_the_longest_own_id_has_128_characters(broker: Broker) -> None:
    assert broker.send("q", "x", id="x" * 128) == "x" * 128


def test_headers_may_be_large(broker: Broker) -> None:
    headers = {f"key-{number}": "x" * 100 for number in range(250)}
    broker.send("q", "x", headers=headers)
    assert take(broker).headers == headers


@pytest.mark.parametrize("reason", ["x" * 100_000, "ünï ☃", "line\nline", "'; DROP TABLE messages; --"])
def test_any_text_is_a_reason(broker: Broker, reason: str) -> None:
    id = broker.send("q", "x")
    broker.reject(take(broker), reason=reason)
    kept = broker.get(id).error
    assert kept == reason or (kept is not None and reason.startswith(kept[:100]))


@pytest.mark.parametrize("text", ["'; DROP TABLE messages; --", '"', "\\", "%", "_", "?", ":name", "x'00'", "ünï ☃"])
def test_no_text_is_taken_for_sql(broker: Broker, text: str) -> None:
    id = broker.send("q", text, key=text, group=text, headers={text: text}, keys_if_undelivered=[text])
    assert [message.id for message in broker.browse("q", key=text, group=text)] == [id]
    broker.reject(take(broker, consumer=text), reason=text)
    assert broker.get(id).error == text
    assert [entry.key for entry in broker.keys(text)] == [[text]]
    assert broker.redrive("q", where=Where(reason=text)) == broker.redrive("q", where=Where(key=f"{text}x")) == 0
    assert broker.redrive("q", where=Where(reason="rejected", error=text, key=text, group=text)) == 1
