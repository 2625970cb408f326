"""Keys to the server: made, listed and revoked by verbs, and told of in the audit."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from rowq import Broker, InvalidArgument, ManualClock, NotFound
from tests.support.harness import Harness


def test_a_key_is_made_with_a_secret_that_is_shown_once(broker: Broker, clock: ManualClock) -> None:
    secret = broker.create_key("worker", scopes=["send", "receive"], queues=["orders.*"])
    assert re.fullmatch(r"rowq_[A-Za-z0-9_-]{43}", secret)
    [key] = broker.api_keys()
    assert (key.name, tuple(key.scopes), tuple(key.queues), key.created_at) == ("worker", ("send", "receive"), ("orders.*",), clock.now())
    assert secret not in repr(key)


def test_every_secret_is_another(broker: Broker) -> None:
    assert broker.create_key("a", scopes=["send"]) != broker.create_key("b", scopes=["send"])


def test_a_key_is_for_all_queues_unless_it_is_said_otherwise(broker: Broker) -> None:
    broker.create_key("worker", scopes=["metrics"])
    assert tuple(broker.api_keys()[0].queues) == ("*",)


def test_keys_are_listed_by_name(broker: Broker) -> None:
    for name in ("b", "c", "a"):
        broker.create_key(name, scopes=["send"])
    assert [key.name for key in broker.api_keys()] == ["a", "b", "c"]


def test_there_are_no_keys_at_first(broker: Broker) -> None:
    assert broker.api_keys() == []


def test_a_name_that_is_taken_is_refused_and_its_key_stays(broker: Broker) -> None:
    broker.create_key("worker", scopes=["send"])
    with pytest.raises(InvalidArgument, match="already"):
        broker.create_key("worker", scopes=["admin"])
    assert tuple(broker.api_keys()[0].scopes) == ("send",)


def test_a_revoked_key_is_gone_and_its_name_is_free(broker: Broker) -> None:
    first = broker.create_key("worker", scopes=["send"])
    broker.revoke_key("worker")
    assert broker.api_keys() == []
    assert broker.create_key("worker", scopes=["send"]) != first


def test_a_key_that_is_not_there_cannot_be_revoked(broker: Broker) -> None:
    with pytest.raises(NotFound, match="nobody"):
        broker.revoke_key("nobody")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a b", {"scopes": ["send"]}),
        ("", {"scopes": ["send"]}),
        ("a", {"scopes": []}),
        ("a", {"scopes": ["write"]}),
        ("a", {"scopes": ["send"], "queues": []}),
        ("a", {"scopes": ["send"], "queues": ["a b"]}),
        ("a", {"scopes": ["send"], "queues": ["orders.dlq"]}),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(broker: Broker, name: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        broker.create_key(name, **options)
    assert broker.api_keys() == []


def test_a_text_is_no_list_of_scopes(broker: Broker) -> None:
    with pytest.raises(InvalidArgument, match="list"):
        broker.create_key("a", scopes="send")


def test_a_name_that_no_key_could_have_cannot_be_revoked(broker: Broker) -> None:
    with pytest.raises(InvalidArgument):
        broker.revoke_key("a b")


def test_other_brokers_see_a_key_at_once(harness: Harness) -> None:
    other = harness.open()
    harness.broker.create_key("worker", scopes=["send"])
    assert [key.name for key in other.api_keys()] == ["worker"]


def test_what_was_done_with_keys_is_told_without_the_secret(broker: Broker) -> None:
    secret = broker.create_key("worker", scopes=["send"], queues=["a", "b"])
    broker.revoke_key("worker")
    revoked, created = broker.actions()
    assert (created.event, created.queue, created.id) == ("key_created", "", None)
    assert msgspec.json.decode(created.detail or "") == {"name": "worker", "scopes": ["send"], "queues": ["a", "b"]}
    assert (revoked.event, msgspec.json.decode(revoked.detail or "")) == ("key_revoked", {"name": "worker"})
    assert secret not in repr([revoked, created])


def test_what_was_done_with_keys_belongs_to_no_queue(broker: Broker) -> None:
    broker.send("worker", "x")
    broker.create_key("worker", scopes=["send"])
    assert broker.actions("worker") == []
