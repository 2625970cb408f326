"""The life of a message as queue-ti tells it: each transition of its page, on each database."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import ManualClock
from tests.compat.queueti.asking import Topics, millis
from tests.compat.queueti.conftest import Open


def test_c32_what_is_sent_has_an_id_and_comes_back_with_every_field(topics: Topics, clock: ManualClock) -> None:
    sent_at = clock.now()
    id = topics.send("orders", b"\x00\xff", key="order-42", metadata={"user_id": "42"})
    clock.advance(5)
    message = topics.one("orders", visibility_timeout_seconds=60)
    times = {name: millis(message.pop(name)) for name in ("visibility_timeout", "expires_at", "created_at", "updated_at")}
    assert times == {
        "visibility_timeout": clock.now() + 60_000,
        "expires_at": sent_at + 86_400_000,
        "created_at": sent_at,
        "updated_at": clock.now(),
    }
    assert message.pop("receipt").startswith(id)
    assert message == {
        "id": id,
        "topic": "orders",
        "payload": "AP8=",
        "metadata": {"user_id": "42"},
        "key": "order-42",
        "status": "processing",
        "retry_count": 0,
        "max_retries": 3,
        "last_error": None,
        "original_topic": None,
        "dlq_moved_at": None,
    }


def test_c15_what_was_settled_is_not_found_again(topics: Topics) -> None:
    id = topics.send("orders")
    assert topics.one("orders")["id"] == id
    assert topics.ack(id) == 204
    assert topics.ack(id) == topics.nack(id) == 404
    assert topics.dequeue("orders") == []


def test_c29_the_oldest_come_first_and_as_many_as_asked_for(topics: Topics) -> None:
    ids = [topics.send("orders", b"%d" % number) for number in range(5)]
    assert topics.one("orders")["id"] == ids[0], "one, if nothing is said"
    assert [message["id"] for message in topics.dequeue("orders", count=3)] == ids[1:4]
    assert [message["id"] for message in topics.dequeue("orders", count=1000)] == ids[4:]


def test_c31_an_empty_topic_gives_an_empty_list_at_once(topics: Topics) -> None:
    assert topics.dequeue("nobody") == topics.dequeue("nobody.dlq") == []


def test_c09_a_nack_retries_at_once_until_the_dead_letters(topics: Topics) -> None:
    id = topics.send("orders")
    seen: list[Any] = []
    for number in range(4):
        message = topics.one("orders")
        seen.append((message["retry_count"], message["last_error"]))
        assert topics.nack(id, error=f"no luck {number}") == 204
    assert seen == [(0, None), (1, "no luck 0"), (2, "no luck 1"), (3, "no luck 2")]
    assert topics.dequeue("orders") == []
    dead = topics.one("orders.dlq")
    assert (dead["id"], dead["topic"], dead["original_topic"]) == (id, "orders.dlq", "orders")
    assert (dead["retry_count"], dead["max_retries"], dead["last_error"]) == (0, 0, "no luck 3")
    assert dead["dlq_moved_at"] and not dead["expires_at"]
    assert topics.ack(id) == 204
    assert topics.dequeue("orders.dlq") == []


def test_c18_a_dead_letter_is_received_once_and_can_be_requeued(topics: Topics, clock: ManualClock) -> None:
    id = topics.bury("orders")
    assert topics.one("orders.dlq")["id"] == id
    assert topics.requeue(id) == 404, "somebody has it"
    assert topics.nack(id, error="still no luck") == 204
    assert topics.dequeue("orders.dlq") == [], "max_retries is 0"
    clock.advance(10)
    assert topics.requeue(id) == 204
    assert topics.requeue(id) == 404
    message = topics.one("orders")
    assert (message["id"], message["retry_count"], message["max_retries"], message["last_error"]) == (id, 0, 3, None)
    assert (message["original_topic"], message["dlq_moved_at"]) == (None, None)
    assert millis(message["expires_at"]) == clock.now() + 86_400_000, "it does not come back expired"


def test_c16_both_names_mean_the_dead_letters(topics: Topics) -> None:
    id = topics.bury("orders")
    dead = topics.one("orders-dlq")
    assert (dead["id"], dead["topic"], dead["original_topic"]) == (id, "orders.dlq", "orders")


def test_c20_what_is_requeued_has_its_id_and_its_place(topics: Topics) -> None:
    id = topics.bury("orders")
    behind = topics.send("orders")
    assert topics.requeue(id) == 204
    assert [message["id"] for message in topics.dequeue("orders", count=2)] == [id, behind]


def test_c12_a_visibility_timeout_gives_the_message_back(topics: Topics, clock: ManualClock) -> None:
    id = topics.send("orders")
    topics.one("orders", visibility_timeout_seconds=60)
    clock.advance(59)
    assert topics.dequeue("orders") == []
    clock.advance(1)
    assert topics.one("orders")["id"] == id


def test_c11_after_a_visibility_timeout_nobody_waits_longer(topics: Topics, clock: ManualClock) -> None:
    """c39: and it was processing that went back to pending."""
    id = topics.send("orders")
    for _ in range(3):
        assert topics.one("orders")["status"] == "processing"
        clock.advance(30)
        assert topics.server.engine.insights.get(id).lease_until == clock.now()


def test_c13_thirty_seconds_where_the_call_says_nothing(topics: Topics, clock: ManualClock) -> None:
    topics.send("orders")
    assert millis(topics.one("orders")["visibility_timeout"]) == clock.now() + 30_000


def test_c10_a_visibility_timeout_is_no_nack(topics: Topics, clock: ManualClock) -> None:
    id = topics.send("orders")
    for _ in range(10):
        assert topics.one("orders")["retry_count"] == 0
        clock.advance(30)
    assert topics.one("orders")["id"] == id
    clock.advance(30)
    topics.bury("elsewhere")
    dead = topics.one("elsewhere.dlq")["id"]
    clock.advance(30)
    assert topics.one("elsewhere.dlq")["id"] == dead, "nor is it one of a dead letter"


def test_c05_max_retries_counts_retries_and_not_deliveries(topics: Topics) -> None:
    assert topics.configure("orders", max_retries=2).status == 200
    id = topics.send("orders")
    for _ in range(3):
        assert topics.one("orders")["max_retries"] == 2
        assert topics.nack(id) == 204
    assert topics.dequeue("orders") == []
    assert topics.one("orders.dlq")["id"] == id


def test_c40_the_threshold_is_the_nack_that_makes_a_dead_letter(opened: Open) -> None:
    topics = opened(dlq_threshold=2)
    id = topics.send("orders")
    for _ in range(2):
        assert topics.nack(topics.one("orders")["id"]) == 204
    assert topics.one("orders.dlq")["id"] == id


@pytest.mark.parametrize("threshold", [0, 9])
def test_c19_without_dead_letters_a_message_has_failed(opened: Open, threshold: int) -> None:
    """Disabled, or never reached."""
    topics = opened(dlq_threshold=threshold, max_retries=1)
    id = topics.bury("orders")
    assert topics.dequeue("orders.dlq") == []
    assert topics.requeue(id) == topics.ack(id) == 404
    failed = topics.server.engine.insights.get(id)
    assert (failed.outcome, failed.error, failed.payload) == ("failed", "no luck", b"work")


def test_c21_requeue_goes_by_the_policy_of_today(topics: Topics) -> None:
    id = topics.bury("orders")
    assert topics.configure("orders", max_retries=7).status == 200
    assert topics.requeue(id) == 204
    assert topics.one("orders")["max_retries"] == 7


def test_c23b_dead_letters_do_not_end_with_the_ttl_of_their_first_life(topics: Topics, clock: ManualClock) -> None:
    id = topics.bury("orders")
    clock.advance(10 * 86_400)
    assert topics.reap("expiry") == {"expired": 0}
    assert topics.one("orders.dlq")["id"] == id


def test_c25_an_expired_message_is_never_delivered(topics: Topics, clock: ManualClock) -> None:
    topics.configure("orders", message_ttl_seconds=60)
    topics.send("orders")
    clock.advance(60)
    assert topics.dequeue("orders") == []


def test_c26_in_flight_a_message_does_not_expire(topics: Topics, clock: ManualClock) -> None:
    topics.configure("orders", message_ttl_seconds=60)
    id = topics.send("orders")
    topics.one("orders", visibility_timeout_seconds=3600)
    clock.advance(120)
    assert topics.reap("expiry") == {"expired": 0}
    assert topics.ack(id) == 204


def test_c37_a_key_in_processing_gets_a_successor_and_a_nack_never_fails(topics: Topics) -> None:
    first = topics.send("orders", b"1", key="order-42")
    topics.one("orders")
    second = topics.send("orders", b"2", key="order-42")
    assert second != first
    assert topics.nack(first) == 204
    assert [message["id"] for message in topics.dequeue("orders", count=10)] == [second]


def test_c37_a_dead_letter_is_not_requeued_beside_a_newer_one_of_its_key(topics: Topics) -> None:
    topics.configure("orders", max_retries=0)
    old = topics.send("orders", b"1", key="order-42")
    topics.one("orders")
    topics.nack(old)
    new = topics.send("orders", b"2", key="order-42")
    assert topics.requeue(old) == 204
    assert topics.send("orders", b"3", key="order-42") == new
    assert [(message["id"], message["payload"]) for message in topics.dequeue("orders", count=10)] == [(new, "Mw==")]
    assert topics.dequeue("orders.dlq") == []


def test_c38_a_replacement_keeps_place_and_ttl(topics: Topics, clock: ManualClock) -> None:
    sent_at = clock.now()
    id = topics.send("orders", b"1", key="order-42", metadata={"a": "1"})
    topics.send("orders", b"behind")
    clock.advance(60)
    assert topics.send("orders", b"2", key="order-42", metadata={"b": "2"}) == id
    message = topics.one("orders")
    assert (message["id"], message["payload"], message["metadata"]) == (id, "Mg==", {"b": "2"})
    assert millis(message["expires_at"]) == sent_at + 86_400_000


def test_messages_without_a_key_are_all_different(topics: Topics) -> None:
    assert topics.send("orders") != topics.send("orders")


def test_c43_a_retry_goes_back_to_its_place(topics: Topics) -> None:
    first, second = topics.send("orders"), topics.send("orders")
    topics.one("orders")
    topics.nack(first)
    assert [message["id"] for message in topics.dequeue("orders", count=2)] == [first, second]


def test_c17_nobody_sends_to_dead_letters(topics: Topics) -> None:
    for name in ("orders.dlq", "orders-dlq"):
        answer = topics.enqueue(name)
        assert answer.problem == (400, "name_reserved")


def test_c44_a_message_that_was_sent_natively_shows_its_bytes(topics: Topics) -> None:
    engine = topics.server.engine
    engine.driver.drive(engine.verbs.send("orders", {"amount": 99}, {}))
    assert topics.one("orders")["payload"] == "eyJhbW91bnQiOjk5fQ=="


def test_a_queue_that_was_there_keeps_its_settings(topics: Topics) -> None:
    engine = topics.server.engine
    engine.driver.drive(engine.verbs.configure("orders", {"max_attempts": 9}))
    topics.send("orders")
    assert topics.one("orders")["max_retries"] == 8
    assert engine.insights.settings("orders").on_expire is None


def test_a_message_without_a_limit_shows_the_largest(topics: Topics) -> None:
    engine = topics.server.engine
    engine.driver.drive(engine.verbs.configure("orders", {"max_attempts": 0}))
    topics.send("orders")
    assert topics.one("orders")["max_retries"] == 2**31 - 1
