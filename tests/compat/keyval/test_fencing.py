"""Nobody settles what is not theirs: the wire format has room for a receipt, and an id alone reaches a running lock of this queue only."""

from __future__ import annotations

import pytest

from rowq import ManualClock
from tests.compat.keyval.client import Client
from tests.server.support import ask


@pytest.mark.parametrize("verb", ["ack", "nack"])
def test_a_late_receipt_changes_nothing(client: Client, clock: ManualClock, verb: str) -> None:
    id = client.enqueue("slow")
    late = client.poll()["receipt"]
    clock.advance(30)
    current = client.poll()
    assert current["attempts"] == 2
    client.settle(verb, id, receipt=late)
    assert client.stats() == (0, 1, 0)
    client.ack(id, receipt=current["receipt"])
    assert client.stats() == (0, 0, 0)


def test_a_receipt_whose_lock_ran_out_is_good_until_somebody_else_has_the_message(client: Client, clock: ManualClock) -> None:
    id = client.enqueue("slow")
    receipt = client.poll()["receipt"]
    clock.advance(30)
    client.ack(id)
    assert client.stats()[:2] != (0, 0)
    client.ack(id, receipt=receipt)
    assert client.stats() == (0, 0, 0)


@pytest.mark.parametrize("receipt", ["", "no receipt", "\0", "é" * 1000, "0190163d-8694-7000-8000-000000000001.0000000000000001"])
def test_what_is_no_receipt_of_this_delivery_settles_nothing(client: Client, receipt: str) -> None:
    id = client.enqueue("held")
    client.poll()
    client.ack(id, receipt=receipt)
    assert client.stats() == (0, 1, 0)


def test_the_receipt_of_another_message_settles_neither(client: Client) -> None:
    client.enqueue(1), client.enqueue(2)
    first, second = client.poll(), client.poll()
    client.ack(first["id"], receipt=second["receipt"])
    assert client.stats() == (0, 2, 0)


@pytest.mark.parametrize("verb", ["ack", "nack"])
def test_a_message_of_another_queue_cannot_be_settled_here(client: Client, verb: str) -> None:
    ask(client.server, "POST", "/v1/queues/other/messages", {"payload": 1})
    delivery = ask(client.server, "POST", "/v1/queues/other/deliveries").json["deliveries"][0]
    client.settle(verb, delivery["id"])
    client.settle(verb, delivery["id"], receipt=delivery["receipt"])
    assert ask(client.server, "GET", "/v1/queues/other/stats").json["leased"] == 1


def test_a_dead_letter_that_somebody_looks_into_cannot_be_settled_here(client: Client) -> None:
    id = client.kill("dead")
    assert ask(client.server, "POST", "/v1/queues/keyval.dlq/deliveries").json["deliveries"][0]["id"] == id
    client.ack(id)
    assert client.stats() == (0, 0, 1)
    assert client.ask("POST", f"queue/dlq/{id}/requeue").status == 404
    assert client.ask("DELETE", f"queue/dlq/{id}").status == 404
    assert client.stats() == (0, 0, 1)


def test_a_whole_message_may_be_sent_back(client: Client) -> None:
    client.enqueue({"n": 1})
    answer = client.ask("POST", "queue/ack", client.poll())
    assert (answer.status, answer.json) == (200, {"ok": True})
    assert client.stats() == (0, 0, 0)


def test_a_queue_may_insist_on_receipts(client: Client) -> None:
    id = client.enqueue("guarded")
    assert ask(client.server, "PUT", "/v1/queues/keyval", {"require_receipt": True}).status == 200
    receipt = client.poll()["receipt"]
    answer = client.ask("POST", "queue/ack", {"id": id})
    assert (answer.status, set(answer.json)) == (400, {"error"})
    assert client.stats() == (0, 1, 0)
    client.ack(id, receipt=receipt)
    assert client.stats() == (0, 0, 0)
