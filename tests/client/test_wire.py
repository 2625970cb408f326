"""A message keeps every option on its way through HTTP."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rowq.client.bodies import one_body
from rowq.model.draft import Prepared, prepare
from rowq.model.message import Draft
from rowq.wire import MessageBody, to_prepared

OPTIONS: dict[str, Any] = {
    "headers": {"a": "b"},
    "key": "k",
    "group": "g",
    "priority": 7,
    "delay_ms": 1_000,
    "at_ms": 4_102_444_800_000,
    "ttl_ms": 2_000,
    "deadline_ms": 3_000,
    "max_attempts": 4,
    "backoff_ms": [5, 6],
    "keys_if_undelivered": [["x", 1]],
    "id": "own",
}


def read(body: bytes) -> Prepared:
    return to_prepared("q", msgspec.json.decode(body, type=MessageBody))


def test_every_option_is_tried() -> None:
    assert {"payload", "payload_base64", *OPTIONS} == set(MessageBody.__struct_fields__)


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_alone_is_kept(option: str) -> None:
    """A message without options takes a shorter way, which none with one may take."""
    plain = prepare("q", Draft({"n": 1}))
    body = msgspec.json.encode({"payload": {"n": 1}, option: OPTIONS[option]})
    prepared = read(body)
    assert prepared != plain
    assert read(one_body(prepared)) == prepared


@pytest.mark.parametrize("payload", [{"n": 1}, "text", None, b"\x00\xff"])
def test_a_plain_message_comes_as_it_was_sent(payload: object) -> None:
    plain = prepare("q", Draft(payload))
    assert read(one_body(plain)) == plain
