"""What the API promises, on every database: each test that decides between two readings of that promise names it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rowq import ManualClock
from rowq.model.queue import Settings
from rowq.model.retry import Delays
from tests.compat.keyval.client import Client
from tests.server.support import ask


def test_a_message_goes_in_and_out_and_away(client: Client) -> None:
    id = client.enqueue({"task": "send-email", "to": "user@example.com"})
    assert client.stats() == (1, 0, 0)
    message = client.poll()
    assert {**message, "receipt": ""} == {
        "id": id,
        "value": {"task": "send-email", "to": "user@example.com"},
        "attempts": 1,
        "receipt": "",
    }
    assert list(message) == ["id", "value", "attempts", "receipt"]
    assert client.stats() == (0, 1, 0)
    assert client.poll() is None
    client.ack(id)
    assert client.stats() == (0, 0, 0)


VALUES: list[Any] = [None, True, 0, -1.5, "", "ünï \0 \N{GRINNING FACE}", [], {}, [[{"a": [1, None]}]], "x" * 200_000]


def test_any_json_comes_back_as_it_went_in(client: Client) -> None:
    for value in VALUES:
        client.enqueue(value)
    assert [client.poll()["value"] for _ in VALUES] == VALUES


def test_a_delayed_message_is_pending_and_comes_when_it_is_due(client: Client, clock: ManualClock) -> None:
    client.enqueue("later", delay=60_000)
    assert client.stats() == (1, 0, 0)
    clock.advance(59.9)
    assert client.poll() is None
    clock.advance(0.1)
    assert client.poll()["value"] == "later"


def test_the_first_in_is_the_first_out(client: Client) -> None:
    ids = [client.enqueue(n) for n in range(5)]
    assert [client.poll()["id"] for _ in ids] == ids


def test_c01_a_higher_priority_goes_first_and_then_the_order_of_sending(client: Client) -> None:
    for value, priority in (("usual", 0), ("low", -1), ("urgent", 10), ("urgent too", 10)):
        client.enqueue(value, priority=priority)
    assert [client.poll()["value"] for _ in range(4)] == ["urgent", "urgent too", "usual", "low"]


def fail(client: Client, clock: ManualClock, id: str, delays: list[float]) -> None:
    """Nacks it as often as it comes, and finds it away for exactly that long in between."""
    for attempt, delay in enumerate(delays, 1):
        message = client.poll()
        assert (message["id"], message["attempts"]) == (id, attempt)
        client.nack(id)
        clock.advance(delay - 0.01)
        assert client.poll() is None
        clock.advance(0.01)


def test_c06_three_retries_are_four_deliveries_and_then_it_is_dead(client: Client, clock: ManualClock) -> None:
    value = {"task": "webhook", "url": "https://api.example.com/hook"}
    id = client.enqueue(value, backoffSchedule=[1000, 5000, 30000])
    sent_at = clock.now()
    fail(client, clock, id, [1, 5, 30])
    assert client.poll()["attempts"] == 4
    client.nack(id, error="Connection timeout")
    assert client.stats() == (0, 0, 1)
    assert client.dead() == [
        {
            "id": id,
            "originalId": id,
            "value": value,
            "attempts": 4,
            "errorMessage": "Connection timeout",
            "originalCreatedAt": sent_at,
            "failedAt": clock.now(),
        }
    ]


def test_c08_without_a_schedule_it_is_tried_after_1_5_and_10_seconds(client: Client, clock: ManualClock) -> None:
    id = client.enqueue("default")
    fail(client, clock, id, [1, 5, 10])
    assert client.poll()["attempts"] == 4
    client.nack(id)
    assert [(dead["id"], dead["attempts"]) for dead in client.dead()] == [(id, 4)]


def test_a_schedule_without_delays_means_no_retry(client: Client) -> None:
    id = client.kill("once")
    assert [dead["attempts"] for dead in client.dead()] == [1]
    assert client.ask("GET", f"queue/dlq/{id}").json["errorMessage"] == "Max attempts exceeded"


def test_c10_a_lock_that_runs_out_counts_as_an_attempt(client: Client, clock: ManualClock) -> None:
    client.enqueue("crashes", backoffSchedule=[1000])
    for attempt in (1, 2):
        assert client.poll()["attempts"] == attempt
        clock.advance(30)
    assert client.poll() is None
    assert [(dead["attempts"], dead["errorMessage"]) for dead in client.dead()] == [(2, "the lease expired")]


def test_c11_after_a_lock_it_comes_again_at_once(client: Client, clock: ManualClock) -> None:
    client.enqueue("crashes once")
    assert client.poll()["attempts"] == 1
    clock.advance(29.999)
    assert client.poll() is None
    clock.advance(0.001)
    assert client.poll()["attempts"] == 2


def test_c15_an_ack_or_a_nack_of_nothing_is_well(client: Client) -> None:
    id = client.enqueue("once")
    client.poll()
    client.ack(id)
    for verb in ("ack", "nack"):
        client.settle(verb, id)
        client.settle(verb, "01J9X3K2M5N7P8Q9R0S1T2V3W4")
    assert client.stats() == (0, 0, 0)


def test_c14_what_waits_cannot_be_acked_away(client: Client) -> None:
    waiting, delayed = client.enqueue("waits"), client.enqueue("delayed", delay=60_000)
    for verb in ("ack", "nack"):
        client.settle(verb, waiting)
        client.settle(verb, delayed)
    assert client.stats() == (2, 0, 0)
    assert client.poll()["attempts"] == 1


def test_c14_what_is_dead_cannot_be_acked_away(client: Client) -> None:
    client.ack(client.kill("dead"))
    assert client.stats() == (0, 0, 1)


def test_c19_the_last_nack_is_the_move(client: Client) -> None:
    client.kill("dead")
    assert client.stats() == (0, 0, 1)


def test_c20_a_requeue_keeps_id_and_options_and_begins_anew(client: Client, clock: ManualClock) -> None:
    id = client.kill({"n": 1}, priority=3, keysIfUndelivered=[["lost", "n"]])
    answer = client.ask("POST", f"queue/dlq/{id}/requeue")
    assert (answer.status, answer.json) == (200, {"ok": True, "newId": id})
    assert client.stats() == (1, 0, 0)
    message = client.poll()
    assert (message["id"], message["value"], message["attempts"]) == (id, {"n": 1}, 1)
    client.nack(id)
    assert [dead["attempts"] for dead in client.dead()] == [1]


def test_c23b_dead_letters_stay_until_somebody_acts(client: Client, clock: ManualClock) -> None:
    id = client.kill("kept")
    clock.advance(400 * 86_400)
    assert ask(client.server, "POST", "/v1/sweep").status == 200
    assert [dead["id"] for dead in client.dead()] == [id]


def test_c35_the_last_error_that_was_told_is_shown(client: Client, clock: ManualClock) -> None:
    id = client.enqueue("fails", backoffSchedule=[1000])
    client.poll()
    client.nack(id, error="Connection timeout")
    clock.advance(1)
    client.poll()
    client.nack(id)
    assert client.dead()[0]["errorMessage"] == "Connection timeout"


def test_an_error_that_cannot_be_stored_is_cleaned(client: Client) -> None:
    id = client.enqueue("fails", backoffSchedule=[])
    client.poll()
    client.nack(id, error="a\0b")
    assert client.dead()[0]["errorMessage"] == "a\N{REPLACEMENT CHARACTER}b"


def test_c43_what_was_retried_stands_behind_what_was_ready_before(client: Client, clock: ManualClock) -> None:
    first, _ = client.enqueue("first", backoffSchedule=[1000]), client.enqueue("second")
    assert client.poll()["id"] == first
    client.nack(first)
    clock.advance(1)
    assert [client.poll()["value"] for _ in range(2)] == ["second", "first"]


def test_c45_an_undelivered_message_is_found_under_its_keys(client: Client) -> None:
    value = {"task": "process-payment", "orderId": "ord-123", "amount": 99.99}
    paths = [["failed-payments", "ord-123"], ["alerts", "payment-failure", "ord-123"], ["numbers", 7], ["numbers", "7", "texts"]]
    id = client.enqueue(value, backoffSchedule=[], keysIfUndelivered=paths)
    client.poll()
    assert client.keys("failed-payments") == []
    client.nack(id)
    (entry,) = client.keys("failed-payments")
    assert (entry["key"], entry["value"]) == (paths[0], value)
    assert entry["versionstamp"] and isinstance(entry["versionstamp"], str)
    assert [entry["key"] for entry in client.keys("failed-payments/ord-123")] == [paths[0]]
    assert [entry["key"] for entry in client.keys("alerts/payment-failure")] == [paths[1]]
    assert [entry["key"] for entry in client.keys("numbers/7")] == [paths[3], paths[2]]
    assert [entry["key"] for entry in client.keys('["numbers",7]'.replace('"', "%22"))] == [paths[2]]
    assert client.keys("failed") == client.keys("ord-123") == []
    assert len(client.keys("")) == 4


def test_dead_letters_are_listed_by_pages_the_last_one_first(client: Client, clock: ManualClock) -> None:
    ids = []
    for n in range(5):
        ids.append(client.kill(n))
        clock.advance(1)
    ids.reverse()
    assert [dead["id"] for dead in client.dead()] == ids
    assert [dead["id"] for dead in client.dead("?limit=2")] == ids[:2]
    assert [dead["id"] for dead in client.dead("?limit=2&offset=2")] == ids[2:4]
    assert [dead["id"] for dead in client.dead("?limit=50&offset=4")] == ids[4:]
    assert client.dead("?offset=5") == []


def test_one_dead_letter_is_looked_at_and_deleted(client: Client) -> None:
    id, other = client.kill("one"), client.kill("other")
    assert client.ask("GET", f"queue/dlq/{id}").json == client.dead()[1]
    answer = client.ask("DELETE", f"queue/dlq/{id}")
    assert (answer.status, answer.json) == (200, {"ok": True})
    assert [dead["id"] for dead in client.dead()] == [other]
    assert client.ask("DELETE", f"queue/dlq/{id}").status == 404


def test_all_dead_letters_are_purged_and_nothing_else(client: Client) -> None:
    for n in range(3):
        client.kill(n)
    client.enqueue("waits")
    answer = client.ask("DELETE", "queue/dlq")
    assert (answer.status, answer.json) == (200, {"deletedCount": 3})
    assert client.stats() == (1, 0, 0)
    assert client.ask("DELETE", "queue/dlq").json == {"deletedCount": 0}


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("DELETE", ""), ("POST", "/requeue")])
def test_what_is_no_dead_letter_is_not_found(client: Client, method: str, path: str) -> None:
    alive = client.enqueue("alive")
    elsewhere = ask(client.server, "POST", "/v1/queues/other/messages", {"payload": 1}).json["id"]
    delivery = ask(client.server, "POST", "/v1/queues/other/deliveries").json["deliveries"][0]
    ask(client.server, "POST", "/v1/reject", {"receipts": [delivery["receipt"]]})
    for id in ("dlq-001", alive, elsewhere):
        answer = client.ask(method, f"queue/dlq/{id}{path}")
        assert (answer.status, set(answer.json)) == (404, {"error"}), id
    assert client.stats() == (1, 0, 0)
    assert ask(client.server, "GET", "/v1/queues/other/stats").json["dead"] == 1


def test_an_empty_queue_has_nothing_of_anything(client: Client) -> None:
    assert (client.poll(), client.stats(), client.dead(), client.keys("any")) == (None, (0, 0, 0), [], [])


def test_the_settings_of_the_queue_are_there_for_operators(client: Client) -> None:
    client.enqueue("first")
    settings = client.server.engine.insights.settings("keyval")
    assert settings == Settings(lease_ms=30_000, backoff=Delays((1_000, 5_000, 10_000)), order="ready")
    assert client.server.engine.insights.policy("keyval").max_attempts == 4


def test_a_queue_that_is_there_keeps_its_settings(client: Client) -> None:
    assert ask(client.server, "PUT", "/v1/queues/keyval", {"max_attempts": 1}).status == 200
    id = client.enqueue("once")
    client.poll()
    client.nack(id)
    assert [dead["attempts"] for dead in client.dead()] == [1]


def test_messages_of_other_ways_come_through_this_one(client: Client) -> None:
    for body in ({"payload": {"n": 1}}, {"payload_base64": "AAEC"}):
        assert ask(client.server, "POST", "/v1/queues/keyval/messages", body).status == 201
    assert [client.poll()["value"] for _ in range(2)] == [{"n": 1}, "AAEC"]


def test_a_value_is_kept_to_the_letter(client: Client) -> None:
    written = '{"big":123456789012345678901234567890,"exact":1.10,"é":"\\u00e9  "}'
    assert client.ask("POST", "queue/enqueue", b'{"value": %s}' % written.replace(",", " ,\n").encode()).status == 200
    body = client.ask("GET", "queue/poll").body.decode()
    assert written in body
    assert json.loads(body)["message"]["value"]["exact"] == 1.1


def test_c43_what_its_consumer_lost_stands_behind_too(client: Client, clock: ManualClock) -> None:
    client.enqueue("lost"), client.enqueue("waits")
    assert client.poll()["value"] == "lost"
    clock.advance(31)
    assert [client.poll()["value"] for _ in range(2)] == ["waits", "lost"]


def test_c43_what_was_delayed_stands_where_it_became_ready(client: Client, clock: ManualClock) -> None:
    client.enqueue("delayed", delay=60_000)
    clock.advance(30)
    client.enqueue("sent later, ready before")
    clock.advance(40)
    assert [client.poll()["value"] for _ in range(2)] == ["sent later, ready before", "delayed"]
