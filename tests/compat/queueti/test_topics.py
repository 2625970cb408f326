"""Topic configs: replaced whole, seen as settings of the queue, and obeyed at once."""

from __future__ import annotations

import pytest

from rowq import ManualClock
from tests.compat.queueti.asking import Topics
from tests.compat.queueti.conftest import Open

UNSET = {"max_retries": None, "message_ttl_seconds": None, "max_depth": None, "throughput_limit": None}


def shown(topics: Topics, topic: str = "orders") -> dict[str, object]:
    config: dict[str, object] = topics.ask("GET", f"/topic-configs/{topic}").json
    assert config.pop("topic") == topic
    return config


def test_what_is_not_said_goes_back_to_the_default(topics: Topics) -> None:
    full = {"max_retries": 5, "message_ttl_seconds": 3600, "max_depth": 1000, "throughput_limit": 100}
    assert topics.configure("orders", **full).json == {"topic": "orders", **full}
    assert shown(topics) == full
    assert topics.configure("orders", max_retries=7, message_ttl_seconds=None).json == {"topic": "orders", **UNSET, "max_retries": 7}
    settings = topics.server.engine.insights.settings("orders")
    assert (settings.max_attempts, settings.ttl_ms, settings.max_depth, settings.throughput_limit) == (8, 86_400_000, 0, 0)


def test_nothing_is_not_the_default(topics: Topics, clock: ManualClock) -> None:
    assert topics.configure("orders", max_retries=0, message_ttl_seconds=0, max_depth=0, throughput_limit=0).json == {
        "topic": "orders",
        **UNSET,
        "max_retries": 0,
        "message_ttl_seconds": 0,
    }
    id = topics.send("orders")
    clock.advance(30 * 86_400)
    message = topics.one("orders")
    assert (message["max_retries"], message["expires_at"]) == (0, None)
    topics.nack(id)
    assert topics.one("orders.dlq")["id"] == id


def test_a_config_leaves_the_rest_of_a_queue_alone(topics: Topics) -> None:
    engine = topics.server.engine
    engine.driver.drive(engine.verbs.configure("orders", {"lease": 90, "keep": "body", "max_depth": 5}))
    assert topics.configure("orders", max_retries=1).status == 200
    settings = engine.insights.settings("orders")
    assert (settings.lease_ms, settings.keep, settings.max_attempts, settings.max_depth) == (90_000, "body", 2, 0)


def test_a_topic_that_is_configured_before_its_first_message_is_one_of_queue_ti(topics: Topics) -> None:
    topics.configure("orders", max_depth=10)
    settings = topics.server.engine.insights.settings("orders")
    assert (settings.on_expire, settings.count_lease_expiry, settings.max_attempts) == ("expired", False, 4)


def test_configs_are_listed_and_deleted(topics: Topics) -> None:
    topics.send("plain")
    topics.configure("orders", max_depth=10)
    assert topics.ask("GET", "/topic-configs").json == {"items": [{"topic": "orders", **UNSET, "max_depth": 10}]}
    assert topics.ask("DELETE", "/topic-configs/orders").status == 204
    assert topics.ask("GET", "/topic-configs").json == {"items": []}
    assert shown(topics) == UNSET
    for method in ("GET", "DELETE"):
        assert topics.ask(method, "/topic-configs/nobody").problem == (404, "queue_not_found")


def test_c41_a_full_topic_refuses_and_counts_what_is_processed(topics: Topics) -> None:
    topics.configure("orders", max_depth=2)
    first = topics.send("orders")
    topics.send("orders")
    topics.one("orders")
    assert topics.enqueue("orders").problem == (429, "queue_full")
    topics.ack(first)
    topics.send("orders")


def test_a_throughput_limit_gives_fewer_and_no_error(topics: Topics, clock: ManualClock) -> None:
    topics.configure("orders", throughput_limit=3)
    for _ in range(10):
        topics.send("orders")
    assert len(topics.dequeue("orders", count=10)) == 3
    assert topics.dequeue("orders", count=10) == []
    clock.advance(1)
    assert len(topics.dequeue("orders", count=10)) == 3


def test_the_options_of_the_api_are_the_defaults(opened: Open, clock: ManualClock) -> None:
    topics = opened(visibility_timeout=5, max_retries=1, message_ttl="10s")
    topics.send("orders")
    message = topics.one("orders")
    assert message["max_retries"] == 1
    clock.advance(5)
    assert topics.one("orders")["id"] == message["id"]
    clock.advance(5)
    assert topics.dequeue("orders") == []
    assert shown(topics) == UNSET


@pytest.mark.parametrize(
    "config",
    [
        {"max_retries": -1},
        {"max_retries": "5"},
        {"max_retries": 1.5},
        {"max_retries": True},
        {"message_ttl_seconds": -1},
        {"message_ttl_seconds": 10**12},
        {"max_depth": -1},
        {"max_depth": 2**70},
        {"throughput_limit": -1},
        {"throughput_limit": [100]},
        {"replayable": True},
        [],
    ],
    ids=str,
)
def test_a_config_that_is_not_possible_changes_nothing(opened: Open, config: object) -> None:
    topics = opened()
    topics.configure("orders", max_retries=5)
    assert topics.ask("PUT", "/topic-configs/orders", config).problem == (400, "invalid_argument")
    assert shown(topics)["max_retries"] == 5


@pytest.mark.parametrize(
    ("topic", "code"), [("orders.dlq", "name_reserved"), ("orders-dlq", "name_reserved"), ("or%20ders", "invalid_argument")]
)
def test_only_a_topic_of_its_own_is_configured(opened: Open, topic: str, code: str) -> None:
    topics = opened()
    for method in ("GET", "PUT", "DELETE"):
        assert topics.ask(method, f"/topic-configs/{topic}", {} if method == "PUT" else None).problem == (400, code)
