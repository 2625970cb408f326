"""What a queue takes: the size of a payload and the schema it must match."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import Broker, InvalidArgument, PayloadRejected, PayloadTooLarge
from tests.support.life import depths, drain
from tests.support.row_names import row_name

LIMIT = 256 * 1024


def test_a_payload_may_be_as_large_as_the_limit(broker: Broker) -> None:
    broker.send("q", b"x" * LIMIT)
    assert drain(broker) == [b"x" * LIMIT]


@pytest.mark.parametrize(
    "payload", [b"x" * (LIMIT + 1), "x" * LIMIT, ["x" * LIMIT], "ü" * (LIMIT // 2)], ids=["bytes", "text", "list", "umlauts"]
)
def test_a_payload_over_the_limit_is_refused(broker: Broker, payload: Any) -> None:
    # the encoded payload counts: a text of LIMIT characters has quotes around it, an ü is two bytes
    with pytest.raises(PayloadTooLarge) as error:
        broker.send("q", payload)
    assert error.value.code == "payload_too_large"
    assert depths(broker) == {}


def test_a_queue_may_lower_the_limit(broker: Broker) -> None:
    broker.configure("q", max_payload_bytes=10)
    broker.send("q", b"x" * 10)
    with pytest.raises(PayloadTooLarge):
        broker.send("q", b"x" * 11)
    broker.send("p", b"x" * 11)


def test_a_queue_may_raise_the_limit(broker: Broker) -> None:
    broker.configure("q", max_payload_bytes=LIMIT * 4)
    broker.send("q", b"x" * LIMIT * 4)
    assert len(drain(broker)[0]) == LIMIT * 4


def test_a_refusal_says_how_large_a_payload_may_be(broker: Broker) -> None:
    broker.configure("q", max_payload_bytes=1_234)
    with pytest.raises(PayloadTooLarge, match=r"1,?234"):
        broker.send("q", b"x" * 2_000)


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


def test_a_payload_that_matches_the_schema_is_taken(broker: Broker) -> None:
    broker.configure("q", schema=PERSON)
    broker.send_many("q", [{"name": "ada"}, {"name": "bob", "age": 36}])
    assert len(drain(broker)) == 2


@pytest.mark.parametrize(
    "payload", [{}, {"name": ""}, {"name": "ada", "age": -1}, {"name": "ada", "x": 1}, "ada", None, [], 5], ids=row_name
)
def test_a_payload_that_breaks_the_schema_is_refused(broker: Broker, payload: Any) -> None:
    broker.configure("q", schema=PERSON)
    with pytest.raises(PayloadRejected) as error:
        broker.send("q", payload)
    assert error.value.code == "payload_rejected"
    assert depths(broker) == {}


def test_a_replacement_must_match_the_schema_too(broker: Broker) -> None:
    broker.configure("q", schema=PERSON)
    id = broker.send("q", {"name": "ada"}, key="k")
    with pytest.raises(PayloadRejected):
        broker.send("q", {"name": 5}, key="k")
    assert broker.get(id).payload == {"name": "ada"}


def test_a_schema_is_of_its_own_queue(broker: Broker) -> None:
    broker.configure("q", schema=PERSON)
    broker.send("p", "anything")


def test_a_new_schema_holds_at_once_and_for_new_messages_only(broker: Broker) -> None:
    broker.send("q", "before")
    broker.configure("q", schema={"type": "integer"})
    with pytest.raises(PayloadRejected):
        broker.send("q", "text")
    broker.configure("q", schema={"type": "string"})
    broker.send("q", "after")
    assert drain(broker) == ["before", "after"]


def test_a_schema_is_taken_back(broker: Broker) -> None:
    broker.configure("q", schema=PERSON)
    broker.configure("q", schema=None)
    broker.send("q", "anything")
    assert broker.settings("q").schema is None


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"minimum": "low"}, {"properties": 5}, "text", 5], ids=row_name)
def test_what_is_no_schema_is_refused(broker: Broker, schema: Any) -> None:
    with pytest.raises(InvalidArgument):
        broker.configure("q", schema=schema)
    broker.send("q", "anything")
