"""Rows become messages by the rules of a send; a row that cannot is named."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import rowq
from rowq.model.draft import Prepared, is_plain, with_delay
from rowq.model.mapping import Drafting, Mapping
from rowq.spark.publish import Publisher


def drafted(mapping: Mapping, **columns: Any) -> list[Prepared]:
    return Drafting(mapping).messages(pa.record_batch(columns))


@pytest.mark.parametrize(
    ("column", "kind", "format", "data"),
    [
        (pa.array(['{"a": 1}']), "auto", 1, b'{"a": 1}'),
        (pa.array(["[1]"], pa.large_string()), "auto", 1, b"[1]"),
        (pa.array([b"\x00\xff"]), "auto", 0, b"\x00\xff"),
        (pa.array([b'{"a":1}']), "json", 1, b'{"a":1}'),
        (pa.array(["plain"]), "text", 1, b'"plain"'),
        (pa.array(["plain"]), "bytes", 0, b"plain"),
        (pa.array([{"a": 1, "b": [True, None]}]), "auto", 1, b'{"a":1,"b":[true,null]}'),
        (pa.array([[1.5, 2.0]]), "auto", 1, b"[1.5,2.0]"),
        (pa.array([7]), "auto", 1, b"7"),
        (pa.array([True]), "auto", 1, b"true"),
    ],
)
def test_a_payload_is_what_its_column_holds(column: pa.Array, kind: Any, format: int, data: bytes) -> None:
    (message,) = drafted(Mapping(queue="q", payload_as=kind), payload=column)
    assert (message.format, message.payload, type(message.format)) == (format, data, int)
    assert is_plain(message)


def test_a_format_may_stand_beside_each_payload_as_in_what_was_read() -> None:
    messages = drafted(Mapping(queue="q", format="format"), payload=[b'"a"', b"\x00"], format=["json", "bytes"])
    assert [(message.format, message.payload) for message in messages] == [(1, b'"a"'), (0, b"\x00")]


def test_null_in_an_option_says_nothing() -> None:
    mapping = Mapping(queue="q", key="key", group="group", priority="priority", delay="delay", ttl="ttl", headers="headers", id="id")
    nothing = {name: pa.array([None], pa.string()) for name in ("key", "group", "priority", "delay", "ttl", "headers", "id")}
    (message,) = drafted(mapping, payload=["1"], **nothing)
    assert message == Prepared("q", 1, b"1")


def test_headers_are_a_map_or_a_json_object() -> None:
    as_map = pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string()))
    for column in (as_map, pa.array(['{"a":"b"}']), pa.array([{"a": "b"}])):
        (message,) = drafted(Mapping(queue="q", headers="headers"), payload=["1"], headers=column)
        assert message.headers == b'{"a":"b"}'


def test_durations_are_seconds_of_any_number() -> None:
    for value, millis in ((2, 2_000), (1.5, 1_500), (Decimal("0.25"), 250)):
        (message,) = drafted(Mapping(queue="q", delay="delay"), payload=["1"], delay=[value])
        assert message.delay_ms == millis


def test_a_moment_is_a_timestamp_with_a_timezone() -> None:
    moments = pa.array([1_700_000_000_123, None], pa.timestamp("ms", "Europe/Berlin"))
    named, unnamed = drafted(Mapping(queue="q", at="at", delay="delay"), payload=["1", "2"], at=moments, delay=[None, 5])
    assert (with_delay(named, 1_700_000_000_000).delay_ms, unnamed.delay_ms) == (123, 5_000)


@pytest.mark.parametrize(
    ("columns", "mapping", "told"),
    [
        ({"payload": ["1", "{"]}, Mapping(queue="q"), "row 1: this payload cannot be read as JSON.*`text`"),
        ({"payload": pa.array(["1", None])}, Mapping(queue="q"), "row 1: the payload is NULL"),
        ({"payload": pa.array([b"1", None])}, Mapping(queue="q"), "row 1: the payload is NULL"),
        ({"payload": [1.5, float("nan")]}, Mapping(queue="q"), "row 1: JSON has no nan"),
        ({"payload": ["1"]}, Mapping(queue="q", key="k"), "no column 'k'; the table has payload"),
        ({"body": ["1"]}, Mapping(queue="q"), "no column 'payload'"),
        ({"payload": ["1", "2"], "k": ["a", "b" * 256]}, Mapping(queue="q", key="k"), "row 1: key must be text of 1 to 255"),
        ({"payload": ["1", "2"], "k": ["a", ""]}, Mapping(queue="q", group="k"), "row 1: group must be text"),
        ({"payload": ["1", "2"], "p": [1, 1 << 40]}, Mapping(queue="q", priority="p"), "row 1: priority"),
        ({"payload": ["1", "2"], "p": [1.0, 1.5]}, Mapping(queue="q", priority="p"), "row 0: priority"),
        ({"payload": ["1", "2"], "d": [1, -1]}, Mapping(queue="q", delay="d"), "row 1: delay"),
        ({"payload": ["1"], "t": pa.array([0], pa.timestamp("ms"))}, Mapping(queue="q", at="t"), "row 0: at needs a timezone"),
        ({"payload": ["1", "2"], "t": [1, 2]}, Mapping(queue="q", at="t"), "row 0: at must be a moment"),
        (
            {"payload": ["1"], "t": pa.array([1 << 50], pa.timestamp("ms", "UTC"))},
            Mapping(queue="q", at="t"),
            "the column 't' holds a value",
        ),
        ({"payload": ["1", "2"], "h": ["{}", "[]"]}, Mapping(queue="q", headers="h"), "row 1: headers must be a JSON object"),
        ({"payload": ["1", "2"], "i": ["a", "ä"]}, Mapping(queue="q", id="i"), "row 1: id"),
        ({"payload": ["1", "2"], "q": ["a", "a b"]}, Mapping(queue_column="q"), "row 1: 'a b' is not a queue name"),
        ({"payload": ["1", "2"], "q": ["a", None]}, Mapping(queue_column="q"), "row 1: None is not a queue name"),
        ({"payload": ["1", "2"], "q": ["a", "a.dlq"]}, Mapping(queue_column="q"), "row 1: .*dead letters"),
        ({"payload": ["1", "2"], "f": ["json", "xml"]}, Mapping(queue="q", format="f"), "row 1: the format of a payload"),
        ({"payload": [1]}, Mapping(queue="q", payload_as="json"), "cannot be sent as json"),
    ],
)
def test_a_row_that_no_queue_could_take_is_named(columns: dict[str, Any], mapping: Mapping, told: str) -> None:
    with pytest.raises(rowq.InvalidArgument, match=told):
        drafted(mapping, **columns)


def test_rows_are_counted_through_all_batches() -> None:
    drafting = Drafting(Mapping(queue="q"))
    drafting.messages(pa.record_batch({"payload": ["1"] * 10}))
    with pytest.raises(rowq.InvalidArgument, match="row 12"):
        drafting.messages(pa.record_batch({"payload": ["1", "2", "x"]}))


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_the_rules_of_the_queue_hold_when_messages_are_put_down(broker: rowq.Broker, publisher: Publisher) -> None:
    broker.configure("q", max_payload_bytes=10, schema={"type": "integer"})
    good = pa.record_batch({"payload": ["1", "2"]})
    for payload, error, told in (
        ('"a"', rowq.PayloadRejected, "row 2: the payload does not match"),
        ("1" * 11, rowq.PayloadTooLarge, "row 2: the payload takes 11 bytes"),
    ):
        with pytest.raises(error, match=told):
            publisher.stage("s-" + told[-5:], [good, pa.record_batch({"payload": [payload]})], Mapping(queue="q"))
    with pytest.raises(rowq.PayloadRejected, match="row 0: the payload is bytes"):
        publisher.stage("s", [pa.record_batch({"payload": [b"1"]})], Mapping(queue="q"))
    assert publisher.stage("good", [good], Mapping(queue="q")) == 2
