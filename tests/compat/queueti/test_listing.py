"""What can be seen: every status, of topics and of their dead letters, and nothing of other people's."""

from __future__ import annotations

import pytest

from rowq import ManualClock
from rowq.errors import MessageNotFound
from rowq.server.compat.queueti.listing import changed_at
from tests.compat.queueti.asking import Topics, millis
from tests.compat.queueti.conftest import Open
from tests.server.support import key


def filled(topics: Topics, clock: ManualClock) -> dict[tuple[str, str], str]:
    """A message in each status, by topic and status."""
    engine = topics.server.engine
    found = {("orders", "expired"): topics.send("orders")}
    clock.advance(86_400)
    topics.reap("expiry")
    for status in ("failed", "processing", "pending"):
        found["orders.dlq", status] = topics.bury("orders")
        if status != "pending":
            topics.one("orders.dlq", visibility_timeout_seconds=3_600)
        if status == "failed":
            topics.nack(found["orders.dlq", status], error="for good")
    engine.driver.drive(engine.verbs.configure("orders", {"on_exhausted": "fail"}))
    found["orders", "failed"] = topics.bury("orders")
    found["orders", "processing"] = topics.send("orders")
    topics.one("orders", visibility_timeout_seconds=3_600)
    found["orders", "pending"] = topics.send("orders")
    return found


def test_every_status_is_listed_and_counted(topics: Topics, clock: ManualClock) -> None:
    found = filled(topics, clock)
    listed = topics.ask("GET", "/messages").json
    assert {(message["topic"], message["status"]): message["id"] for message in listed["items"]} == found
    assert (listed["total"], listed["limit"], listed["offset"]) == (len(found), 50, 0)
    counted = topics.ask("GET", "/stats").json["topics"]
    assert {(each["topic"], each["status"]): each["count"] for each in counted} == dict.fromkeys(found, 1)
    for topic in ("orders", "orders.dlq", "orders-dlq"):
        page = topics.ask("GET", f"/messages?topic={topic}").json
        assert {message["id"] for message in page["items"]} == {id for (name, _), id in found.items() if name == topic.replace("-", ".")}
        assert page["total"] == len(page["items"])


def test_c34_acked_messages_are_gone_even_if_the_queue_keeps_them(topics: Topics) -> None:
    engine = topics.server.engine
    engine.driver.drive(engine.verbs.configure("orders", {"keep": "body"}))
    id = topics.send("orders")
    topics.one("orders")
    topics.ack(id)
    assert topics.ask("GET", "/messages").json["items"] == topics.ask("GET", "/stats").json["topics"] == []


def test_a_message_that_waits_tells_when_it_last_changed(topics: Topics, clock: ManualClock) -> None:
    first, second = topics.send("orders", key="order-42"), topics.send("orders")
    moments = [clock.now()]
    clock.advance(5)
    topics.send("orders", b"newer", key="order-42")
    moments.append(clock.now())
    listed = {message["id"]: message for message in topics.ask("GET", "/messages").json["items"]}
    assert [millis(listed[id]["created_at"]) for id in (first, second)] == [moments[0], moments[0]]
    assert [millis(listed[id]["updated_at"]) for id in (first, second)] == [moments[1], moments[0]]
    topics.one("orders")
    clock.advance(5)
    topics.nack(first)
    assert millis(topics.ask("GET", "/messages").json["items"][0]["updated_at"]) == clock.now()


def test_c39_after_its_timeout_a_message_is_pending_again(topics: Topics, clock: ManualClock) -> None:
    topics.send("orders")
    topics.one("orders")
    statuses = []
    for _ in range(2):
        statuses += [message["status"] for message in topics.ask("GET", "/messages?topic=orders").json["items"]]
        clock.advance(31)
        engine = topics.server.engine
        engine.driver.drive(engine.maintenance.run_all())
    assert statuses == ["processing", "pending"]


def test_a_queue_that_goes_while_it_is_listed_does_no_harm(opened: Open) -> None:
    engine = opened().server.engine
    engine.driver.drive(engine.verbs.send("orders", "work", {"id": "order-42"}))
    insights = engine.insights
    (message,) = insights.walk("orders", None)
    engine.driver.drive(engine.verbs.delete_queue("orders"))
    with pytest.raises(MessageNotFound):
        insights.audit("order-42")
    assert changed_at(insights, message) == 0


def test_pages(opened: Open) -> None:
    topics = opened()
    ids = [topics.send(topic) for topic in ("a", "a", "b", "b", "b")]
    pages = [topics.ask("GET", f"/messages?limit=2&offset={offset}").json for offset in (0, 2, 4, 6)]
    assert [message["id"] for page in pages for message in page["items"]] == ids
    assert {page["total"] for page in pages} == {5}
    assert topics.ask("GET", "/messages?topic=nobody").json == {"items": [], "total": 0, "limit": 50, "offset": 0}


def test_a_key_sees_its_own_topics(opened: Open) -> None:
    topics = opened(keys=(key("orders", "send", "receive", queues=("orders",)), key("all", "send")))
    topics.with_key("rowq_all").send("invoices")
    orders = topics.with_key("rowq_orders")
    id = orders.send("orders")
    assert [message["id"] for message in orders.ask("GET", "/messages").json["items"]] == [id]
    assert orders.ask("GET", "/stats").json == {"topics": [{"topic": "orders", "status": "pending", "count": 1}]}
    for topic in ("invoices", "invoices.dlq"):
        assert orders.ask("GET", f"/messages?topic={topic}").problem == (403, "forbidden")
    assert topics.with_key("rowq_all").ask("GET", "/stats").problem == (403, "forbidden")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=x", "offset=-1", "offset=1e9", "topic=or%20ders", "topic=%00", "topic=%FF"]
)
def test_a_query_that_is_not_possible_is_refused(opened: Open, query: str) -> None:
    assert opened().ask("GET", f"/messages?{query}").problem == (400, "invalid_argument")
