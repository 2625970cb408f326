"""Each route once: what it does, what it refuses, and which keys open it. Every answer is held against the description of the API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from rowq.server.api import events
from rowq.server.api.examples import PATHS
from rowq.server.api.routes import ROUTES
from tests.server.promises import check_promised, check_schema
from tests.server.support import ADMIN, Answer, Stream, ask, filled, key, serving
from tests.support.background import Background
from tests.support.patience import eventually
from tests.support.server import Server

SENDER, RECEIVER, MEASURER = "rowq_sender", "rowq_receiver", "rowq_measurer"
CLERK = "rowq_clerk"
"""Of `orders.*` alone; there it may do everything."""


class Api:
    """A client that believes nothing: each answer must be one that is promised."""

    def __init__(self, server: Server, secret: str = ADMIN) -> None:
        self.server = server
        self._secret = secret

    def as_(self, secret: str) -> Api:
        return Api(self.server, secret)

    def ask(self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None) -> Answer:
        answer = ask(self.server, method, path, body, secret=self._secret, headers=headers)
        check_promised(method, path, answer)
        return answer

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == 200, answer.body
        return answer.json

    def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        answer = self.ask("POST", path, body)
        assert answer.status == status, answer.body
        return answer.json if answer.body else None

    def send(self, queue: str, payload: Any = "work", **options: Any) -> str:
        return str(self.post(f"/v1/queues/{queue}/messages", {"payload": payload, **options}, status=201)["id"])

    def receive(self, queue: str, **options: Any) -> list[dict[str, Any]]:
        return list(self.post(f"/v1/queues/{queue}/deliveries", options)["deliveries"])

    def receipt(self, queue: str) -> str:
        (delivery,) = self.receive(queue)
        return str(delivery["receipt"])

    def settle(self, verb: str, *receipts: str, **options: Any) -> list[str]:
        return [result["outcome"] for result in self.post(f"/v1/{verb}", {"receipts": receipts, **options})["results"]]

    def kill(self, queue: str, **options: Any) -> str:
        id = self.send(queue, **options)
        assert self.settle("reject", self.receipt(queue), reason="no such address") == ["done"]
        return id

    def count(self, queue: str, state: str) -> int:
        return int(self.get(f"/v1/queues/{queue}/stats")[state])

    def stream(self, path: str) -> Stream:
        return Stream(self.server, path, self._secret)


KEYS = (
    key("admin", "admin"),
    key("sender", "send"),
    key("receiver", "receive"),
    key("measurer", "metrics"),
    key("clerk", "send", "receive", "admin", queues=("orders.*",)),
)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serving(tmp_path, *KEYS) as server:
        yield Api(server)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """For requests that are refused, and so change nothing."""
    with serving(tmp_path_factory.mktemp("shared"), *KEYS) as server:
        yield Api(server)


class TestWork:
    def test_a_message_is_sent_received_and_acked(self, api: Api) -> None:
        id = api.send("emails", {"to": "ada"}, headers={"trace": "1"}, key="k", priority=3)
        (delivery,) = api.receive("emails", max=10, lease_ms=60_000, consumer="worker")
        assert (delivery["id"], delivery["payload"], delivery["attempt"]) == (id, {"to": "ada"}, 1)
        assert (delivery["headers"], delivery["key"], delivery["group"], delivery["priority"]) == ({"trace": "1"}, "k", None, 3)
        assert api.settle("ack", delivery["receipt"]) == ["done"]
        assert api.settle("ack", delivery["receipt"]) == ["not_found"]
        assert api.receive("emails") == []

    def test_several_are_sent_at_once_in_their_order(self, api: Api) -> None:
        messages = [{"payload": number} for number in range(5)] + [{"payload_base64": "AAEC"}]
        ids = api.post("/v1/queues/emails/messages", {"messages": messages}, status=201)["ids"]
        received = api.receive("emails", max=10)
        assert [delivery["id"] for delivery in received] == ids
        assert [delivery.get("payload") for delivery in received] == [0, 1, 2, 3, 4, None]
        assert received[-1]["payload_base64"] == "AAEC" and "payload" not in received[-1]
        assert api.post("/v1/queues/emails/messages", {"messages": []}, status=201) == {"ids": []}

    def test_an_id_is_taken_once(self, api: Api) -> None:
        assert api.send("emails", id="mine") == "mine"
        assert api.ask("POST", "/v1/queues/emails/messages", {"payload": 1, "id": "mine"}).problem == (409, "id_taken")

    def test_an_id_says_nothing_of_queues_out_of_reach(self, api: Api) -> None:
        clerk = api.as_(CLERK)
        api.send("secret", "theirs", id="invoice-1")
        api.send("secret", "theirs", id="invoice-2")
        for path in ("/v1/messages/invoice-1", "/v1/messages/invoice-1/audit"):
            assert clerk.ask("GET", path).problem == (404, "message_not_found")
            assert clerk.ask("GET", f"{path}?queue=secret").problem == (403, "forbidden")
        assert clerk.ask("DELETE", "/v1/messages/invoice-1").problem == (404, "message_not_found")
        assert clerk.send("orders.new", "ours", id="invoice-1") == "invoice-1"
        assert clerk.get("/v1/messages/invoice-1")["payload"] == "ours"
        assert [event["queue"] for event in clerk.get("/v1/messages/invoice-1/audit")["events"]] == ["orders.new"]
        for path in ("/v1/messages/invoice-1", "/v1/messages/invoice-1/audit"):
            assert api.ask("GET", path).problem == (409, "ambiguous_id")
            assert api.ask("GET", f"{path}?queue=secret").status == 200
        assert clerk.ask("DELETE", "/v1/messages/invoice-1").status == 204
        assert [api.get(f"/v1/messages/{id}")["payload"] for id in ("invoice-1", "invoice-2")] == ["theirs", "theirs"]

    def test_a_full_queue_refuses(self, api: Api) -> None:
        assert api.ask("PUT", "/v1/queues/emails", {"max_depth": 1}).status == 200
        api.send("emails")
        refused = api.ask("POST", "/v1/queues/emails/messages", {"payload": 1})
        assert refused.problem == (429, "queue_full")
        assert refused.headers["retry-after"] == "1"

    def test_a_schema_is_asked_of_payloads(self, api: Api) -> None:
        assert api.ask("PUT", "/v1/queues/emails", {"schema": {"type": "object"}}).status == 200
        api.send("emails", {})
        assert api.ask("POST", "/v1/queues/emails/messages", {"payload": 1}).problem == (422, "payload_rejected")

    def test_a_body_may_be_left_out_of_a_receive(self, api: Api) -> None:
        api.send("emails")
        assert len(api.post("/v1/queues/emails/deliveries")["deliveries"]) == 1

    def test_a_receive_waits_for_a_message(self, api: Api) -> None:
        waiting = Background(lambda: api.receive("emails", wait_ms=20_000))
        eventually(lambda: api.server.engine.waiting == 1)
        id = api.send("emails")
        assert [delivery["id"] for delivery in waiting.result()] == [id]

    def test_a_receive_that_waits_is_answered_when_the_server_stops(self, api: Api) -> None:
        waiting = Background(lambda: api.receive("emails", wait_ms=20_000))
        eventually(lambda: api.server.engine.waiting == 1)
        api.server.service.stop()
        assert waiting.result() == []

    def test_the_ways_to_settle(self, api: Api) -> None:
        api.send("emails")
        assert api.settle("nack", api.receipt("emails"), delay_ms=0, reason="away", counts=False) == ["done"]
        assert api.settle("reschedule", api.receipt("emails"), delay_ms=3_600_000) == ["done"]
        assert api.count("emails", "scheduled") == 1
        api.send("emails")
        receipt = api.receipt("emails")
        (result,) = api.post("/v1/extend", {"receipts": [receipt], "lease_ms": 120_000})["results"]
        assert result["outcome"] == "done" and result["lease_until"] > api.server.engine.clock.now() + 60_000
        assert api.settle("reject", receipt, reason="never") == ["done"]
        assert api.count("emails", "dead") == 1

    def test_a_lease_that_was_given_up_is_stale(self, api: Api) -> None:
        api.send("emails")
        receipt = api.receipt("emails")
        assert api.settle("nack", receipt, delay_ms=0) == ["done"]
        assert api.settle("ack", receipt) == ["stale"]

    def test_dead_letters_are_received_from_their_name(self, api: Api) -> None:
        id = api.kill("emails")
        (delivery,) = api.receive("emails.dlq")
        assert delivery["id"] == id
        assert api.settle("ack", delivery["receipt"]) == ["done"]

    def test_a_sender_may_not_receive_nor_a_receiver_send(self, api: Api) -> None:
        sender, receiver = api.as_(SENDER), api.as_(RECEIVER)
        sender.send("emails")
        assert sender.ask("POST", "/v1/queues/emails/deliveries").problem == (403, "forbidden")
        assert sender.ask("POST", "/v1/ack", {"receipts": ["a"]}).problem == (403, "forbidden")
        assert receiver.ask("POST", "/v1/queues/emails/messages", {"payload": 1}).problem == (403, "forbidden")
        assert receiver.settle("ack", receiver.receipt("emails")) == ["done"]


class TestEventStreams:
    def test_deliveries_come_as_events_and_settling_one_makes_room(self, api: Api) -> None:
        ids = [api.send("emails", {"number": number}) for number in range(3)]
        stream = api.stream("/v1/queues/emails/deliveries?in_flight=1&ping_ms=100")
        try:
            assert stream.response.status == 200
            for id in ids:
                event, delivery = stream.next()
                check_schema({"$ref": "#/components/schemas/DeliveryBody"}, delivery)
                assert (event, delivery["id"]) == ("delivery", id)
                assert api.count("emails", "leased") == 1
                assert api.settle("ack", delivery["receipt"]) == ["done"]
            assert stream.next(skip="") == ("ping", {})
        finally:
            stream.close()

    def test_a_payload_with_line_breaks_is_one_event(self, api: Api) -> None:
        body = b'{"payload":[1,\n2,\r\n"a\\nb"]}'
        assert api.ask("POST", "/v1/queues/emails/messages", body).status == 201
        stream = api.stream("/v1/queues/emails/deliveries")
        try:
            assert stream.next()[1]["payload"] == [1, 2, "a\nb"]
        finally:
            stream.close()

    def test_a_stream_ends_when_the_server_stops(self, api: Api) -> None:
        stream = api.stream("/v1/queues/emails/deliveries")
        api.server.service.stop()
        assert stream.response.read().startswith(b": rowq")
        stream.close()

    def test_a_token_opens_a_stream(self, api: Api) -> None:
        token = api.post("/v1/tokens", status=201)["token"]
        stream = Stream(api.server, f"/v1/queues/emails/deliveries?token={token}")
        assert stream.response.status == 200
        stream.close()

    def test_undelivered_keys_come_as_events(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(events, "LOOK_EVERY", 0.1)
        api.kill("emails", payload="first", keys_if_undelivered=[["customers", 1]])
        stream = api.stream("/v1/keys/watch?prefix=customers")
        try:
            event, entry = stream.next()
            check_schema({"$ref": "#/components/schemas/EntryBody"}, entry)
            assert (event, entry["key"], entry["value"]) == ("set", ["customers", 1], "first")
            assert api.ask("DELETE", f"/v1/keys?key={quote(json.dumps(['customers', 1]))}").status == 204
            assert stream.next() == ("removed", {"key": ["customers", 1]})
        finally:
            stream.close()

    def test_what_goes_wrong_in_a_stream_is_its_last_event(self, api: Api) -> None:
        stream = api.stream("/v1/keys/watch?ping_ms=100")
        api.server.engine.close()
        event, problem = stream.next()
        check_schema({"$ref": "#/components/schemas/Problem"}, problem)
        assert (event, problem["code"]) == ("problem", "broker_closed")
        assert stream.response.read() == b""
        stream.close()

    def test_a_stream_is_for_those_who_may_receive(self, api: Api) -> None:
        assert api.as_(SENDER).ask("GET", "/v1/queues/emails/deliveries").problem == (403, "forbidden")
        assert api.as_(CLERK).ask("GET", "/v1/queues/emails/deliveries").problem == (403, "forbidden")
        assert api.as_(CLERK).ask("GET", "/v1/keys/watch").problem == (403, "forbidden")


class TestQueues:
    def test_queues_are_listed_with_their_depth(self, api: Api) -> None:
        api.send("emails")
        api.send("orders.new")
        assert [(stats["queue"], stats["ready"]) for stats in api.get("/v1/queues")["queues"]] == [("emails", 1), ("orders.new", 1)]
        assert api.as_(SENDER).ask("GET", "/v1/queues").problem == (403, "forbidden")

    def test_a_queue_is_looked_at(self, api: Api) -> None:
        assert api.ask("GET", "/v1/queues/emails").problem == (404, "queue_not_found")
        assert api.ask("GET", "/v1/queues/emails/stats").problem == (404, "queue_not_found")
        assert api.ask("PUT", "/v1/queues/emails", {"lease_ms": 5000, "backoff_ms": [1, 2]}).json == {
            "lease_ms": 5000,
            "backoff_ms": [1, 2],
        }
        look = api.get("/v1/queues/emails")
        assert (look["settings"], look["stats"]["ready"]) == ({"lease_ms": 5000, "backoff_ms": [1, 2]}, 0)
        assert (look["policy"]["lease_ms"], look["policy"]["max_attempts"]) == (5000, 3)
        assert api.get("/v1/queues/emails/policy") == look["policy"]
        assert {name for name, origin in look["origins"].items() if origin == "queue"} == {"lease_ms", "backoff_ms", "max_attempts"}
        assert look["origins"].keys() == look["policy"].keys() | {"schema"}

    def test_null_goes_back_to_the_default_and_what_is_left_out_stays(self, api: Api) -> None:
        api.ask("PUT", "/v1/queues/emails", {"lease_ms": 5000, "max_depth": 7})
        assert api.ask("PUT", "/v1/queues/emails", {"lease_ms": None}).json == {"max_depth": 7}
        assert api.ask("PUT", "/v1/queues/emails.dlq", {"lease_ms": 1}).problem == (400, "name_reserved")
        assert api.as_(RECEIVER).ask("PUT", "/v1/queues/emails", {"lease_ms": 1}).problem == (403, "forbidden")

    def test_a_paused_queue_gives_nothing_out_until_it_is_resumed(self, api: Api) -> None:
        api.send("emails")
        assert api.ask("POST", "/v1/queues/emails/pause").status == 204
        assert api.get("/v1/queues/emails/stats")["paused"] is True
        eventually(lambda: api.receive("emails") == [])
        assert api.ask("DELETE", "/v1/queues/emails/pause").status == 204
        eventually(lambda: api.receive("emails"))
        assert api.as_(RECEIVER).ask("POST", "/v1/queues/emails/pause").problem == (403, "forbidden")

    def test_a_purge_takes_what_waits_or_what_is_named(self, api: Api) -> None:
        api.send("emails")
        api.send("emails", delay_ms=3_600_000)
        api.kill("emails", priority=1)
        assert api.ask("DELETE", "/v1/queues/emails/messages?state=scheduled").json == {"count": 1}
        assert api.ask("DELETE", "/v1/queues/emails/messages").json == {"count": 1}
        assert api.ask("DELETE", "/v1/queues/emails/messages?state=dead&state=ready").json == {"count": 1}
        assert api.as_(RECEIVER).ask("DELETE", "/v1/queues/emails/messages").problem == (403, "forbidden")

    def test_a_queue_is_removed_with_all_that_is_in_it(self, api: Api) -> None:
        id = api.send("emails")
        assert api.ask("DELETE", "/v1/queues/emails").status == 204
        assert api.ask("DELETE", "/v1/queues/emails").problem == (404, "queue_not_found")
        assert api.ask("GET", f"/v1/messages/{id}").problem == (404, "message_not_found")

    def test_what_operators_did_is_told_with_who_it_was(self, api: Api) -> None:
        api.send("emails")
        api.ask("POST", "/v1/queues/emails/pause")
        (event,) = api.get("/v1/actions?queue=emails&limit=1")["events"]
        assert (event["queue"], event["actor"]) == ("emails", "key:admin")
        assert api.as_(RECEIVER).ask("GET", "/v1/actions").problem == (403, "forbidden")


class TestMessages:
    def test_messages_are_looked_at_page_by_page(self, api: Api) -> None:
        ids = [api.send("emails", number) for number in range(5)]
        seen: list[str] = []
        after = ""
        while True:
            page = api.get(f"/v1/queues/emails/messages?limit=2{after}")
            seen += [message["id"] for message in page["messages"]]
            if page["next"] is None:
                break
            after = f"&after={page['next']}"
        assert seen == ids

    def test_they_are_found_by_key_group_and_text(self, api: Api) -> None:
        mine = api.send("emails", {"to": "ada"}, key="k", group="g")
        api.send("emails", {"to": "grace"})
        for query in ("key=k", "group=g", "text=ada"):
            assert [message["id"] for message in api.get(f"/v1/queues/emails/messages?{query}")["messages"]] == [mine]

    @pytest.mark.parametrize("state", ["ready", "scheduled", "leased", "blocked", "dead", "finished"])
    def test_a_message_of_every_state_is_told_as_promised(self, api: Api, state: str) -> None:
        filled(api.server)
        messages = api.get(f"/v1/queues/emails/messages?state={state}")["messages"]
        assert len(messages) == 1
        alone = api.get(f"/v1/messages/{messages[0]['id']}")
        assert {**alone, "cursor": ""} == {**messages[0], "cursor": ""}
        events = api.get(f"/v1/messages/{messages[0]['id']}/audit")["events"]
        assert events[0]["event"] == "enqueued"

    def test_all_of_them_are_given_out_one_a_line(self, api: Api) -> None:
        filled(api.server)
        api.send("orders.new")
        answer = api.ask("GET", "/v1/messages")
        assert answer.headers["content-type"] == "application/x-ndjson"
        assert len(answer.body.splitlines()) == 7
        assert len(api.ask("GET", "/v1/messages?queue=emails&state=dead&state=finished").body.splitlines()) == 2
        assert api.ask("PUT", "/v1/queues/empty", {}).status == 200
        assert api.ask("GET", "/v1/messages?queue=empty").body == b""
        assert api.ask("GET", "/v1/messages?queue=nothing").problem == (404, "queue_not_found")

    def test_a_message_is_removed(self, api: Api) -> None:
        id = api.send("emails")
        assert api.as_(RECEIVER).ask("DELETE", f"/v1/messages/{id}").problem == (403, "forbidden")
        assert api.ask("DELETE", f"/v1/messages/{id}").status == 204
        assert api.ask("DELETE", f"/v1/messages/{id}").problem == (404, "message_not_found")
        assert [event["event"] for event in api.get(f"/v1/messages/{id}/audit")["events"]] == ["enqueued", "deleted"]

    def test_a_sender_may_not_look(self, api: Api) -> None:
        id = api.send("emails")
        for path in ("/v1/queues/emails/messages", "/v1/messages", f"/v1/messages/{id}", f"/v1/messages/{id}/audit"):
            assert api.as_(SENDER).ask("GET", path).problem == (403, "forbidden")


class TestDeadLetters:
    def test_they_are_looked_at_sent_back_and_removed(self, api: Api) -> None:
        first, second = api.kill("emails"), api.kill("emails")
        page = api.get("/v1/queues/emails/dead")
        assert [message["id"] for message in page["messages"]] == [first, second]
        assert page["messages"][0]["reason"] == "rejected"
        assert api.post("/v1/queues/emails/dead/redrive", {"ids": [second]}) == {"count": 1}
        assert api.count("emails", "ready") == 1
        assert api.ask("DELETE", "/v1/queues/emails/dead").json == {"count": 1}

    def test_they_are_filtered(self, api: Api) -> None:
        first, second = api.kill("emails", key="k"), api.kill("emails")
        for path in ("dead?", "messages?state=dead&"):
            for query, expected in (
                ("reason=rejected", [first, second]),
                ("reason=message_expired", []),
                ("fingerprint=no%20such%20address&reason=rejected", [first, second]),
                ("fingerprint=", []),
                ("error=such&key=k", [first]),
                ("died_after=1&newest=true", [second, first]),
                ("died_before=1", []),
            ):
                page = api.get(f"/v1/queues/emails/{path}{query}")
                assert ([message["id"] for message in page["messages"]], page["next"]) == (expected, None), query

    @pytest.mark.parametrize("query", ["dead?error=", "dead?cause=x", "dead?died_before=-1", "dead?reason=%00", "messages?reason=rejected"])
    def test_a_filter_that_cannot_be_is_refused(self, api: Api, query: str) -> None:
        api.kill("emails")
        assert api.ask("GET", f"/v1/queues/emails/{query}").problem == (400, "invalid_argument")

    def test_a_page_by_fingerprint_examines_so_many_and_says_where_to_go_on(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rowq.store.read.CANDIDATES", 2)
        monkeypatch.setattr("rowq.store.read._MOST_QUERIES", 2)
        for _ in range(9):
            api.kill("emails")
        after, pages = "", 0
        while after is not None:
            page = api.get(f"/v1/queues/emails/dead?fingerprint=another{after and f'&after={after}'}")
            assert page["messages"] == []
            after, pages = page["next"], pages + 1
        assert pages == 3

    def test_a_redrive_without_a_body_takes_all(self, api: Api) -> None:
        api.kill("emails")
        api.kill("emails")
        assert api.post("/v1/queues/emails/dead/redrive", {"reason": "message_expired"}) == {"count": 0}
        assert api.post("/v1/queues/emails/dead/redrive") == {"count": 2}

    def test_some_are_removed_by_their_ids_or_by_what_they_have_in_common(self, api: Api) -> None:
        first, second = api.kill("emails"), api.kill("emails", key="k")
        third = api.kill("emails", key="k")
        assert api.post("/v1/queues/emails/dead/removal", {"ids": [first, first, "nobody"]}) == {"count": 1}
        assert api.post("/v1/queues/emails/dead/removal", {"ids": [second], "reason": "message_expired"}) == {"count": 0}
        assert api.post("/v1/queues/emails/dead/removal", {"key": "k", "limit": 1}) == {"count": 1}
        assert [message["id"] for message in api.get("/v1/queues/emails/dead")["messages"]] == [third]
        assert api.get(f"/v1/messages/{second}/audit")["events"][-1]["event"] == "deleted"
        assert api.count("emails", "ready") == 0

    def test_a_removal_that_names_nothing_is_refused(self, api: Api) -> None:
        api.kill("emails")
        for body in (None, {}, {"limit": 1}):
            assert api.ask("POST", "/v1/queues/emails/dead/removal", body).problem == (400, "invalid_argument")
        assert api.post("/v1/queues/emails/dead/removal", {"ids": []}) == {"count": 0}
        assert api.count("emails", "dead") == 1

    def test_a_redrive_at_a_crawl_ends_with_the_server(self, api: Api) -> None:
        api.kill("emails")
        api.kill("emails")
        crawling = Background(lambda: api.ask("POST", "/v1/queues/emails/dead/redrive", {"rate": 1e-9}))
        eventually(lambda: api.count("emails", "ready") == 1)
        api.server.service.stop()
        assert crawling.result().problem == (500, "outcome_unknown")
        assert api.count("emails", "dead") == 1

    def test_they_are_put_together_by_why_they_died(self, api: Api) -> None:
        first, second = api.kill("emails"), api.kill("emails")
        found = api.get("/v1/queues/emails/dead/failures")
        assert [(each["fingerprint"], each["count"], each["id"]) for each in found["failures"]] == [("no such address", 2, second)]
        assert (found["looked_at"], found["more"]) == (2, False)
        assert api.ask("GET", "/v1/queues/emails/dead/failures?limit=0").problem == (400, "invalid_argument")
        assert api.post("/v1/queues/emails/dead/redrive", {"fingerprint": "no such"}) == {"count": 0}
        assert api.post("/v1/queues/emails/dead/redrive", {"fingerprint": "no such address", "limit": 1}) == {"count": 1}
        assert [message["id"] for message in api.get("/v1/queues/emails/messages")["messages"]] == [first]

    def test_the_newest_come_first_where_that_is_asked(self, api: Api) -> None:
        killed = [api.kill("emails") for _ in range(3)]
        page = api.get("/v1/queues/emails/dead?newest=true&limit=2")
        rest = api.get(f"/v1/queues/emails/messages?state=dead&newest=true&after={page['next']}")
        assert [message["id"] for message in page["messages"] + rest["messages"]] == [*reversed(killed)]
        assert api.ask("GET", "/v1/queues/emails/messages?newest=true").problem == (400, "invalid_argument")

    def test_only_an_operator_may_send_them_back(self, api: Api) -> None:
        assert api.as_(RECEIVER).ask("POST", "/v1/queues/emails/dead/redrive").problem == (403, "forbidden")
        assert api.as_(RECEIVER).ask("DELETE", "/v1/queues/emails/dead").problem == (403, "forbidden")


class TestUndeliveredKeys:
    def test_they_are_listed_and_forgotten(self, api: Api) -> None:
        api.kill("emails", payload={"to": "ada"}, keys_if_undelivered=["plain", ["customers", 42]])
        assert [entry["key"] for entry in api.get("/v1/keys")["keys"]] == [["customers", 42], ["plain"]]
        assert api.get("/v1/keys?prefix=customers")["keys"][0]["value"] == {"to": "ada"}
        assert api.get(f"/v1/keys?prefix={quote(json.dumps(['customers', 42]))}")["keys"][0]["key"] == ["customers", 42]
        assert api.ask("DELETE", "/v1/keys?key=plain").status == 204
        assert api.ask("DELETE", "/v1/keys?key=plain").problem == (404, "not_found")

    def test_they_belong_to_no_queue_so_a_key_for_some_does_not_open_them(self, api: Api) -> None:
        assert api.as_(CLERK).ask("GET", "/v1/keys").problem == (403, "forbidden")
        assert api.as_(CLERK).ask("DELETE", "/v1/keys?key=a").problem == (403, "forbidden")
        assert api.as_(RECEIVER).ask("DELETE", "/v1/keys?key=a").problem == (403, "forbidden")


class TestAccess:
    def test_a_key_is_made_works_at_once_and_is_revoked_at_once(self, api: Api) -> None:
        made = api.post("/v1/api-keys", {"name": "new", "scopes": ["send"], "queues": ["emails"]}, status=201)
        fresh = api.as_(made["secret"])
        fresh.send("emails")
        assert fresh.ask("POST", "/v1/queues/orders.new/messages", {"payload": 1}).problem == (403, "forbidden")
        (listed,) = api.get("/v1/api-keys")["api_keys"]
        assert (listed["name"], listed["scopes"], listed["queues"]) == ("new", ["send"], ["emails"])
        assert "secret" not in listed
        assert api.ask("DELETE", "/v1/api-keys/new").status == 204
        assert fresh.ask("POST", "/v1/queues/emails/messages", {"payload": 1}).problem == (401, "unauthorized")
        assert api.ask("DELETE", "/v1/api-keys/new").problem == (404, "not_found")

    def test_a_name_is_given_once(self, api: Api) -> None:
        assert api.ask("POST", "/v1/api-keys", {"name": "new", "scopes": ["send"]}).status == 201
        assert api.ask("POST", "/v1/api-keys", {"name": "new", "scopes": ["admin"]}).status == 400

    @pytest.mark.parametrize("secret", [SENDER, RECEIVER, MEASURER, CLERK])
    def test_only_an_operator_of_all_queues_makes_keys(self, api: Api, secret: str) -> None:
        other = api.as_(secret)
        assert other.ask("GET", "/v1/api-keys").problem == (403, "forbidden")
        assert other.ask("POST", "/v1/api-keys", {"name": "mine", "scopes": ["admin"]}).problem == (403, "forbidden")
        assert other.ask("DELETE", "/v1/api-keys/admin").problem == (403, "forbidden")


class TestOperations:
    def test_whether_it_is_alive_and_ready_is_told_without_a_key(self, api: Api) -> None:
        for path in ("/healthcheck", "/readyz"):
            assert ask(api.server, "GET", path).status == 204
            assert ask(api.server, "HEAD", path).status == 204
        api.server.service.is_stopping = True
        assert api.ask("GET", "/readyz").problem == (503, "server_unavailable")
        assert api.ask("GET", "/healthcheck").status == 204

    def test_a_database_that_does_not_answer_is_told(self, api: Api) -> None:
        api.server.engine.close()
        assert api.ask("GET", "/healthcheck").problem == (503, "forq.unhealthy")
        assert api.ask("GET", "/v1/queues").problem == (503, "broker_closed")
        assert api.ask("POST", "/v1/queues/emails/messages", {"payload": 1}).problem == (503, "broker_closed")

    def test_figures_are_for_those_who_may_measure(self, api: Api) -> None:
        api.send("emails")
        answer = api.as_(MEASURER).ask("GET", "/metrics")
        assert b"rowq_messages_sent_total" in answer.body
        assert api.as_(RECEIVER).ask("GET", "/metrics").problem == (403, "forbidden")
        assert api.as_(MEASURER).ask("GET", "/v1/queues").problem == (403, "forbidden")

    def test_figures_may_be_switched_off(self, api: Api) -> None:
        api.server.service.metrics = None
        assert api.ask("GET", "/metrics").problem == (404, "not_found")

    def test_maintenance_and_the_doctor_are_for_operators(self, api: Api) -> None:
        assert set(api.post("/v1/sweep")) == {"due", "lease_expired", "expired", "retired"}
        assert all(finding["ok"] in (True, False) for finding in api.get("/v1/doctor")["findings"])
        for secret in (RECEIVER, CLERK):
            assert api.as_(secret).ask("POST", "/v1/sweep").problem == (403, "forbidden")
            assert api.as_(secret).ask("GET", "/v1/doctor").problem == (403, "forbidden")


class TestAKeyForSomeQueues:
    """What a key for `orders.*` cannot do with `emails`."""

    @pytest.mark.parametrize(
        ("method", "rest"),
        [(route.method, route.path.removeprefix("/v1/queues/{queue}")) for route in ROUTES if route.path.startswith("/v1/queues/{queue}")],
    )
    @pytest.mark.parametrize("name", ["emails", "emails.dlq", "orders", "ordersx", "Orders.new"])
    def test_it_opens_no_route_of_another_queue(self, shared: Api, method: str, rest: str, name: str) -> None:
        body = {"payload": 1} if (method, rest) == ("POST", "/messages") else None
        answer = shared.as_(CLERK).ask(method, f"/v1/queues/{name}{rest}", body)
        assert answer.problem in ((403, "forbidden"), (400, "name_reserved"))

    def test_it_opens_its_own(self, api: Api) -> None:
        clerk = api.as_(CLERK)
        clerk.send("orders.new")
        assert clerk.settle("ack", clerk.receipt("orders.new")) == ["done"]
        clerk.kill("orders.new")
        assert len(clerk.get("/v1/queues/orders.new/dead")["messages"]) == 1
        assert clerk.post("/v1/queues/orders.new/dead/redrive") == {"count": 1}
        assert clerk.ask("PUT", "/v1/queues/orders.new", {"lease_ms": 1000}).status == 200

    @pytest.mark.parametrize("verb", ["ack", "nack", "reject", "reschedule", "extend"])
    def test_it_settles_nothing_of_another_queue(self, api: Api, verb: str) -> None:
        api.send("emails")
        api.send("orders.new")
        theirs, mine = api.receipt("emails"), api.receipt("orders.new")
        options = {"delay_ms": 0} if verb == "reschedule" else {}
        before = api.get("/v1/queues/emails/messages?state=leased")
        assert api.as_(CLERK).settle(verb, theirs, mine, **options) == ["not_found", "done"]
        assert api.get("/v1/queues/emails/messages?state=leased") == before
        assert api.settle("ack", theirs) == ["done"]

    def test_it_sees_only_its_own_in_lists(self, api: Api) -> None:
        api.send("emails")
        mine = api.send("orders.new")
        clerk = api.as_(CLERK)
        assert [stats["queue"] for stats in clerk.get("/v1/queues")["queues"]] == ["orders.new"]
        assert [json.loads(line)["id"] for line in clerk.ask("GET", "/v1/messages").body.splitlines()] == [mine]
        assert clerk.ask("GET", "/v1/messages?queue=emails").problem == (403, "forbidden")

    def test_a_message_of_another_queue_is_not_there_for_it(self, api: Api) -> None:
        theirs, mine = api.send("emails"), api.send("orders.new")
        clerk = api.as_(CLERK)
        assert clerk.get(f"/v1/messages/{mine}")["id"] == mine
        assert clerk.ask("GET", f"/v1/messages/{theirs}").problem == (404, "message_not_found")
        assert len(clerk.get(f"/v1/messages/{mine}/audit")["events"]) == 1
        assert clerk.ask("GET", f"/v1/messages/{theirs}/audit").problem == (404, "message_not_found")
        assert clerk.ask("DELETE", f"/v1/messages/{theirs}").problem == (404, "message_not_found")
        assert api.get(f"/v1/messages/{theirs}")["id"] == theirs

    def test_it_redrives_no_dead_letter_of_another_queue_by_its_id(self, api: Api) -> None:
        theirs = api.kill("emails")
        api.send("orders.new")
        assert api.as_(CLERK).post("/v1/queues/orders.new/dead/redrive", {"ids": [theirs]}) == {"count": 0}
        assert api.count("emails", "dead") == 1


@pytest.mark.parametrize("route", [route for route in ROUTES if route.right is not None], ids=lambda route: route.operation)
def test_no_route_opens_without_a_key(shared: Api, route: Any) -> None:
    path = route.path.format(**PATHS)
    answer = ask(shared.server, route.method, path, {} if route.body else None)
    check_promised(route.method, path, answer)
    assert answer.problem == (401, "unauthorized")
