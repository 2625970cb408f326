"""Whoever lost a message, or may not touch it, changes nothing."""

from __future__ import annotations

import base64

import pytest

from rowq import ManualClock
from tests.compat.queueti.asking import Topics
from tests.compat.queueti.conftest import Open
from tests.server.support import ask, key

KEYS = (
    key("orders", "send", "receive", "admin", queues=("orders",)),
    key("invoices", "send", "receive", "admin", queues=("invoices",)),
    key("sender", "send"),
    key("worker", "receive"),
)


def test_c14_a_late_receipt_settles_nothing(topics: Topics, clock: ManualClock) -> None:
    id = topics.send("orders")
    late = topics.one("orders")["receipt"]
    clock.advance(30)
    current = topics.one("orders")["receipt"]
    assert topics.ack(id, receipt=late) == topics.nack(id, receipt=late, error="late") == 404
    assert topics.ack(id, receipt=current) == 204


def test_c14_an_id_alone_reaches_the_lease_that_runs(topics: Topics, clock: ManualClock) -> None:
    id = topics.send("orders")
    assert topics.ack(id) == topics.nack(id) == 404, "nobody has it"
    receipt = topics.one("orders")["receipt"]
    clock.advance(30)
    assert topics.ack(id) == topics.nack(id) == 404, "nobody has it any more"
    assert topics.ack(id, receipt=receipt) == 204, "but the work was done, and nobody has taken it since"


def test_c14_a_queue_may_insist_on_receipts(topics: Topics) -> None:
    engine = topics.server.engine
    engine.driver.drive(engine.verbs.configure("orders", {"require_receipt": True}))
    id = topics.send("orders")
    receipt = topics.one("orders")["receipt"]
    assert topics.ask("POST", f"/messages/{id}/ack").problem == (400, "receipt_required")
    assert topics.ack(id, receipt=receipt) == 204


def test_an_id_that_two_topics_have_reaches_the_one_that_is_processed(topics: Topics) -> None:
    engine = topics.server.engine
    for topic in ("orders", "invoices"):
        engine.driver.drive(engine.verbs.send(topic, b"work", {"id": "mine", "max_attempts": 1}))
    topics.one("orders")
    assert topics.ack("mine") == 204
    assert topics.ack("mine") == 404
    engine.driver.drive(engine.verbs.configure("orders", {"audit": False}))
    engine.driver.drive(engine.verbs.send("bills", b"work", {"id": "mine"}))
    receipts = {topic: topics.one(topic)["receipt"] for topic in ("invoices", "bills")}
    assert topics.ask("POST", "/messages/mine/ack").problem == (409, "ambiguous_id")
    assert topics.nack("mine", receipt=receipts["invoices"]) == topics.ack("mine", receipt=receipts["bills"]) == 204
    assert topics.requeue("mine") == 204
    assert topics.one("invoices")["id"] == "mine"


@pytest.mark.parametrize("receipt", ["", "nonsense", "\x00", "0190163d-8694-7000-8000-000000000001.0000000000000001"])
def test_what_never_was_its_receipt_settles_nothing(opened: Open, receipt: str) -> None:
    topics = opened()
    id = topics.send("orders")
    topics.one("orders")
    assert topics.ack(id, receipt=receipt) == 404
    assert topics.ack(id) == 204


def test_the_receipt_of_another_message_settles_nothing(opened: Open) -> None:
    topics = opened()
    first, second = topics.send("orders"), topics.send("orders")
    receipts = {message["id"]: message["receipt"] for message in topics.dequeue("orders", count=2)}
    assert topics.ack(first, receipt=receipts[second]) == 404
    assert topics.ack(first, receipt=receipts[first]) == topics.ack(second, receipt=receipts[second]) == 204


def test_a_key_for_other_topics_touches_nothing(opened: Open) -> None:
    topics = opened(keys=KEYS)
    orders, invoices = topics.with_key("rowq_orders"), topics.with_key("rowq_invoices")
    id = orders.send("orders")
    receipt = orders.one("orders")["receipt"]
    assert invoices.ack(id) == invoices.nack(id) == invoices.ack(id, receipt=receipt) == 404
    for answer in (
        invoices.enqueue("orders"),
        invoices.ask("POST", "/messages/dequeue", {"topic": "orders"}),
        invoices.ask("POST", "/messages/dequeue", {"topic": "orders.dlq"}),
        invoices.ask("GET", "/topic-configs/orders"),
        invoices.configure("orders", max_depth=1),
        invoices.ask("DELETE", "/topic-configs/orders"),
    ):
        assert answer.problem == (403, "forbidden")
    orders.configure("orders", max_retries=0)
    assert invoices.ask("GET", "/topic-configs").json == {"items": []}
    assert orders.nack(id, receipt=receipt) == 204
    assert invoices.requeue(id) == 404
    assert orders.requeue(id) == 204


def test_c47_a_key_comes_in_any_of_three_headers(opened: Open) -> None:
    topics = opened(keys=KEYS)
    basic = base64.b64encode(b"worker:rowq_worker").decode()
    for headers in ({"x-api-key": "rowq_worker"}, {"authorization": "Bearer rowq_worker"}, {"authorization": f"Basic {basic}"}):
        assert ask(topics.server, "POST", "/api/messages/dequeue", {"topic": "orders"}, headers=headers).status == 200


def test_each_way_takes_its_scope(opened: Open) -> None:
    topics = opened(keys=KEYS)
    sender, worker = topics.with_key("rowq_sender"), topics.with_key("rowq_worker")
    id = sender.send("orders")
    assert sender.ask("POST", "/messages/dequeue", {"topic": "orders"}).problem == (403, "forbidden")
    assert worker.enqueue("orders").problem == (403, "forbidden")
    assert worker.one("orders")["id"] == id
    assert sender.ack(id) == 403
    assert worker.ack(id) == 204
    for method, path in [("PUT", "/topic-configs/orders"), ("DELETE", "/topic-configs/orders"), ("POST", f"/messages/{id}/requeue")]:
        assert worker.ask(method, path, {}).problem == (403, "forbidden")
    assert topics.enqueue("orders").problem == (401, "unauthorized")
    assert topics.with_key("rowq_nobody").enqueue("orders").problem == (401, "unauthorized")
