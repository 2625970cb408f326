"""What a client of Forq may rely on, on every database. A name with c07 in it is the contradiction of that number."""

from __future__ import annotations

import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from rowq.server.compat.forq.api import MAX_CONTENT_BYTES
from tests.compat.forq.conftest import Forq

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
LARGEST = {
    "letters": "a" * MAX_CONTENT_BYTES,
    "quotes": '"' * MAX_CONTENT_BYTES,
    "NULs": "\0" * MAX_CONTENT_BYTES,
    "accents": "é" * (MAX_CONTENT_BYTES // 2),
    "faces": "\N{GRINNING FACE}" * (MAX_CONTENT_BYTES // 4),
}


def kill(forq: Forq, queue: str = "emails") -> None:
    """Nacks a message as often as it comes."""
    for pause in (1_000, 5_000, 15_000, 30_000, 60_000):
        message = forq.consume(queue)
        assert message is not None and forq.nack(message, queue).status == 204
        forq.clock.advance(pause / 1000)


class TestProducing:
    def test_c32_and_c48_a_message_is_there_once_it_is_answered_with_its_id_in_a_header(self, forq: Forq) -> None:
        answer = forq.produce("I am going on an adventure!")
        assert (answer.status, answer.body) == (204, b"")
        (message,) = forq.broker.browse("emails")
        assert message.payload == "I am going on an adventure!" and message.id == answer.headers["x-forq-message-id"]

    def test_a_queue_begins_by_use_with_what_forq_promises(self, forq: Forq) -> None:
        forq.produce("x")
        policy = forq.broker.policy("emails")
        assert (policy.lease_ms, policy.max_attempts, policy.ttl_ms, policy.dlq_ttl_ms) == (5 * MINUTE, 5, DAY, 7 * DAY)
        assert policy.backoff == msgspec.convert(
            {"kind": "list", "delays_ms": [1_000, 5_000, 15_000, 30_000, 60_000]}, type(policy.backoff)
        )
        assert (policy.on_expire, policy.on_exhausted, policy.dlq_exhausted, policy.ttl_from) == ("dead", "dead", "delete", "available")

    def test_a_queue_that_was_there_keeps_its_settings(self, forq: Forq) -> None:
        before = forq.broker.configure("emails", max_attempts=2)
        assert forq.produce("x").status == 204
        assert forq.broker.settings("emails") == before

    @pytest.mark.parametrize("name", ["sooner", "0", "null", "skewed"])
    def test_a_message_is_visible_from_process_after_on(self, forq: Forq, name: str) -> None:
        now = forq.clock.now()
        forq.produce("x", processAfter={"sooner": now + 1_500, "0": 0, "null": None, "skewed": now - 10_000}[name])
        if name == "sooner":
            forq.clock.advance(1.499)
            assert forq.consume() is None
            forq.clock.advance(0.001)
        assert forq.consume() is not None

    def test_c23_process_after_in_the_past_is_refused_beyond_ten_seconds_of_skew(self, forq: Forq) -> None:
        now = forq.clock.now()
        assert forq.produce("x", processAfter=now - 10_001).problem == (400, "bad_request.body.processAfter.in_past")
        assert forq.produce("x", processAfter=-1).problem == (400, "bad_request.body.processAfter.in_past")
        assert forq.produce("x", processAfter=now - 10_000).status == 204

    def test_process_after_lies_within_366_days(self, forq: Forq) -> None:
        most = forq.clock.now() + 366 * DAY
        assert forq.produce("x", processAfter=most).status == 204
        assert forq.produce("x", processAfter=most + 1).problem == (400, "bad_request.body.processAfter.too_far")
        assert forq.produce("x", processAfter=10**30).problem == (400, "bad_request.body.processAfter.too_far")

    @pytest.mark.parametrize("name", LARGEST)
    def test_c44_256_kb_are_bytes_of_the_content_whatever_json_makes_of_it(self, forq: Forq, name: str) -> None:
        assert forq.produce(LARGEST[name]).status == 204
        message = forq.consume()
        assert message["content"] == LARGEST[name]
        assert forq.produce(LARGEST[name] + "a").problem == (400, "bad_request.body.content.exceeds_limit")
        assert forq.ack(message).status == 204 and forq.broker.stats("emails").depth == 0

    def test_also_in_a_queue_whose_limit_counts_the_quotes_of_json(self, forq: Forq) -> None:
        forq.broker.configure("emails", lease=60)
        for content in LARGEST.values():
            assert forq.produce(content).status == 204
        assert [forq.consume()["content"] for _ in LARGEST] == list(LARGEST.values())

    def test_an_operators_smaller_limit_holds(self, forq: Forq) -> None:
        forq.broker.configure("emails", max_payload_bytes=10)
        assert forq.produce("a" * 11).problem == (400, "bad_request.body.content.exceeds_limit")

    def test_a_full_queue_says_so(self, forq: Forq) -> None:
        forq.broker.configure("emails", max_depth=1)
        assert forq.produce("1").status == 204
        assert forq.produce("2").problem == (429, "too_many_requests")

    @pytest.mark.parametrize("queue", ["emails-dlq", "emails.dlq", "emails-dlq-dlq", "-dlq"])
    def test_c17_nobody_writes_into_dead_letters(self, forq: Forq, queue: str) -> None:
        assert forq.produce("x", queue).problem == (400, "bad_request.queue.produce_to_dlq")
        assert forq.broker.queues() == []


class TestConsuming:
    def test_c27_the_oldest_comes_first_with_a_uuid7_content_and_receipt(self, forq: Forq) -> None:
        for content in ("first", "second"):
            forq.produce(content)
        answer = forq.ask("GET", "emails/messages")
        assert (answer.status, set(answer.json), answer.json["content"]) == (200, {"id", "content", "receipt"}, "first")
        assert UUID7.fullmatch(answer.json["id"]) and answer.headers["x-forq-receipt"] == answer.json["receipt"]
        assert forq.consume()["content"] == "second"
        assert forq.ask("GET", "emails/messages").status == 204

    def test_what_was_delayed_comes_before_what_was_sent_later(self, forq: Forq) -> None:
        forq.produce("first", processAfter=forq.clock.now() + 1_000)
        forq.produce("second")
        forq.clock.advance(1)
        assert [forq.consume()["content"] for _ in range(2)] == ["first", "second"]

    def test_c31_a_queue_that_nobody_ever_used_is_empty(self, forq: Forq) -> None:
        assert forq.consume("typo") is None
        assert forq.broker.queues() == []

    def test_what_was_sent_by_another_way_is_read_as_text(self, forq: Forq) -> None:
        for payload in ({"to": "ada"}, [1, 2], 3.5, None, "text", b"bytes", "é".encode(), b"\xff\x00"):
            forq.broker.send("emails", payload)
        contents = [forq.consume()["content"] for _ in range(8)]
        assert contents == ['{"to":"ada"}', "[1,2]", "3.5", "null", "text", "bytes", "é", "/wA="]

    def test_what_was_sent_by_this_way_is_text_elsewhere(self, forq: Forq) -> None:
        forq.produce("é\0")
        (delivery,) = forq.broker.receive("emails")
        assert delivery.payload == "é\0"

    def test_c25_nothing_is_delivered_past_its_ttl_not_even_before_maintenance(self, forq: Forq) -> None:
        forq.produce("x", processAfter=forq.clock.now() + HOUR)
        forq.clock.advance(25 * 3600 - 1)
        assert forq.broker.stats("emails").depth == 1
        forq.clock.advance(1)
        assert forq.consume() is None
        assert forq.consume("emails-dlq")["content"] == "x"

    def test_c24_the_ttl_counts_from_when_a_message_is_visible(self, forq: Forq) -> None:
        forq.produce("x", processAfter=forq.clock.now() + HOUR)
        forq.clock.advance(25 * 3600 - 1)
        assert forq.consume() is not None

    def test_c26_a_message_in_processing_does_not_expire(self, forq: Forq) -> None:
        forq.produce("x")
        forq.clock.advance(24 * 3600 - 1)
        message = forq.consume()
        forq.clock.advance(60)
        forq.broker.maintain()
        assert forq.ack(message).status == 204
        assert forq.broker.stats("emails").depth == 0 and forq.consume("emails-dlq") is None


class TestSettling:
    def test_an_ack_removes_the_message(self, forq: Forq) -> None:
        forq.produce("x")
        answer = forq.ack(forq.consume())
        assert (answer.status, answer.body) == (204, b"")
        assert forq.broker.stats("emails").depth == 0

    def test_a_message_with_an_id_of_its_own_is_settled_by_that(self, forq: Forq) -> None:
        forq.broker.send("emails", "x", id="welcome-42")
        message = forq.consume()
        assert message["id"] == "welcome-42" and forq.ack(message).status == 204
        assert forq.broker.stats("emails").depth == 0

    def test_c15_an_ack_is_204_whether_or_not_there_was_anything(self, forq: Forq) -> None:
        forq.produce("x")
        message = forq.consume()
        assert [forq.ack(message).status for _ in range(2)] == [204, 204]
        for id in ("0199164b-4dea-78d9-9b4c-c699d5037962", "nonsense", "%00", "%FF", "é".encode().hex()):
            assert forq.ack({"id": id}).status == 204
            assert forq.nack({"id": id}).problem == (404, "not_found.message")

    def test_an_ack_through_the_wrong_queue_removes_nothing(self, forq: Forq) -> None:
        forq.produce("x")
        message = forq.consume()
        for queue in ("other", "emails-dlq"):
            assert forq.ack(message, queue).status == 204
            assert forq.nack(message, queue).problem == (404, "not_found.message")
        assert forq.broker.stats("emails").leased == 1

    def test_what_waits_is_not_settled(self, forq: Forq) -> None:
        id = forq.produce("x").headers["x-forq-message-id"]
        assert forq.ack({"id": id}).status == 204
        assert forq.nack({"id": id}).problem == (404, "not_found.message")
        assert forq.broker.stats("emails").ready == 1

    def test_c07_the_first_nack_waits_one_second_and_then_5_15_30(self, forq: Forq) -> None:
        forq.produce("x")
        for pause in (1.0, 5.0, 15.0, 30.0):
            assert forq.nack(forq.consume()).status == 204
            forq.clock.advance(pause - 0.001)
            assert forq.consume() is None
            forq.clock.advance(0.001)
        assert forq.consume() is not None

    def test_c05_and_c08_the_fifth_delivery_is_the_last(self, forq: Forq) -> None:
        forq.produce("x")
        kill(forq)
        assert forq.consume() is None
        (dead,) = forq.broker.browse("emails-dlq")
        assert (dead.reason, dead.attempts) == ("max_attempts_reached", 5)

    def test_c43_a_message_that_comes_back_goes_to_its_old_place(self, forq: Forq) -> None:
        for content in ("first", "second", "third"):
            forq.produce(content)
        forq.nack(forq.consume())
        forq.clock.advance(1)
        assert [forq.consume()["content"] for _ in range(3)] == ["first", "second", "third"]

    def test_c10_and_c11_a_stale_message_counts_and_comes_back_at_once(self, forq: Forq) -> None:
        forq.produce("x")
        for _ in range(5):
            assert forq.consume()["content"] == "x"
            forq.clock.advance(5 * 60 - 0.001)
            assert forq.consume() is None
            forq.clock.advance(0.001)
        assert forq.consume() is None
        assert forq.consume("emails-dlq")["content"] == "x"

    def test_c12_a_stale_message_is_there_without_any_maintenance(self, forq: Forq) -> None:
        forq.produce("x")
        first = forq.consume()
        forq.clock.advance(5 * 60)
        assert forq.consume()["id"] == first["id"]

    def test_c13_five_minutes_hold_in_every_queue(self, forq: Forq) -> None:
        forq.broker.configure("emails", lease=1)
        forq.produce("x")
        forq.consume()
        forq.clock.advance(5 * 60 - 0.001)
        assert forq.consume() is None


class TestFencing:
    def test_c14_a_late_receipt_changes_nothing(self, forq: Forq) -> None:
        forq.produce("x")
        first = forq.consume()
        forq.clock.advance(5 * 60)
        second = forq.consume()
        assert second["receipt"] != first["receipt"]
        assert forq.ack(first, x_forq_receipt=first["receipt"]).status == 204
        assert forq.nack(first, x_forq_receipt=first["receipt"]).problem == (404, "not_found.message")
        assert forq.broker.stats("emails").leased == 1
        assert forq.ack(second, x_forq_receipt=second["receipt"]).status == 204
        assert forq.broker.stats("emails").depth == 0

    @pytest.mark.parametrize("receipt", ["", "nonsense", "0199164b-4dea-7000-8000-000000000001.0000000000000000"])
    def test_a_receipt_that_is_none_changes_nothing(self, forq: Forq, receipt: str) -> None:
        forq.produce("x")
        message = forq.consume()
        assert forq.ack(message, x_forq_receipt=receipt).status == 204
        assert forq.nack(message, x_forq_receipt=receipt).status == 404
        assert forq.broker.stats("emails").leased == 1

    def test_by_id_alone_nobody_settles_a_lease_that_ran_out(self, forq: Forq) -> None:
        forq.produce("x")
        message = forq.consume()
        forq.clock.advance(5 * 60)
        assert forq.ack(message).status == 204 and forq.nack(message).status == 404
        assert forq.consume()["id"] == message["id"]

    def test_a_queue_may_insist_on_receipts(self, forq: Forq) -> None:
        forq.broker.configure("emails", require_receipt=True)
        forq.produce("x")
        message = forq.consume()
        assert forq.ack(message).problem == (400, "bad_request.receipt.missing")
        assert forq.nack(message).problem == (400, "bad_request.receipt.missing")
        assert forq.ack(message, x_forq_receipt=message["receipt"]).status == 204
        assert forq.broker.stats("emails").depth == 0


class TestDeadLetters:
    def test_c16_and_c18_dead_letters_are_consumed_under_their_name(self, forq: Forq) -> None:
        forq.produce("x")
        kill(forq)
        message = forq.consume("emails-dlq")
        assert message["content"] == "x"
        assert forq.ack(message).status == 204, "an ack through the queue itself is one through the wrong queue"
        assert forq.broker.stats("emails").dead == 1
        assert forq.ack(message, "emails-dlq").status == 204
        assert forq.broker.stats("emails").dead == 0

    def test_c19_the_last_nack_makes_it_a_dead_letter_at_once(self, forq: Forq) -> None:
        forq.produce("x")
        kill(forq)
        assert forq.broker.stats("emails").dead == 1

    def test_c18_a_dead_letter_is_deleted_after_five_deliveries(self, forq: Forq) -> None:
        forq.produce("x")
        kill(forq)
        kill(forq, "emails-dlq")
        assert forq.broker.stats("emails").dead == 0
        assert forq.consume("emails-dlq") is None

    def test_a_dead_letter_waits_out_the_same_backoff(self, forq: Forq) -> None:
        forq.produce("x")
        kill(forq)
        forq.nack(forq.consume("emails-dlq"), "emails-dlq")
        forq.clock.advance(0.999)
        assert forq.consume("emails-dlq") is None
        forq.clock.advance(0.001)
        assert forq.consume("emails-dlq") is not None

    def test_c25_a_dead_letter_is_not_delivered_past_its_ttl_not_even_before_maintenance(self, forq: Forq) -> None:
        forq.produce("x")
        kill(forq)
        forq.clock.advance(7 * 86400 - 60)
        assert forq.consume("emails-dlq") is None

    def test_c23b_dead_letters_have_seven_days_from_their_death(self, forq: Forq) -> None:
        forq.produce("x")
        forq.clock.advance(24 * 3600)
        forq.broker.maintain()
        (dead,) = forq.broker.browse("emails-dlq")
        assert dead.reason == "message_expired"
        forq.clock.advance(7 * 86400 - 1)
        forq.broker.maintain()
        assert forq.broker.stats("emails").dead == 1
        forq.clock.advance(1)
        forq.broker.maintain()
        assert forq.broker.stats("emails").dead == 0

    def test_c20_a_redrive_keeps_id_and_place_and_begins_a_new_ttl(self, forq: Forq) -> None:
        id = forq.produce("old").headers["x-forq-message-id"]
        kill(forq)
        forq.produce("new")
        forq.clock.advance(23 * 3600)
        assert forq.broker.redrive("emails-dlq") == 1
        message = forq.consume()
        assert (message["id"], message["content"]) == (id, "old")
        forq.nack(message)
        forq.clock.advance(23 * 3600)
        assert forq.consume()["id"] == id


@pytest.mark.parametrize("most", [200, pytest.param(2_000, marks=pytest.mark.prove("10 s on each database; 200 messages stand for it"))])
@pytest.mark.timeout(600)
def test_nothing_is_lost_and_nothing_doubled_by_twenty_at_once(forq: Forq, most: int) -> None:
    sent, got, lock = [str(number) for number in range(most)], Counter[str](), threading.Lock()

    def produce(contents: list[str]) -> None:
        for content in contents:
            assert forq.produce(content, "busy").status == 204

    def consume(_: int) -> None:
        while sum(got.values()) < most:
            message = forq.consume("busy")
            if message is not None:
                assert forq.ack(message, "busy", x_forq_receipt=message["receipt"]).status == 204
                with lock:
                    got[message["content"]] += 1

    with ThreadPoolExecutor(20) as threads:
        work = [threads.submit(produce, sent[start::10]) for start in range(10)] + [threads.submit(consume, each) for each in range(10)]
        for each in work:
            each.result()
    assert got == Counter(sent) and forq.broker.stats("busy").depth == 0
