"""Server-sent events: deliveries as they come, never more unacknowledged than asked for, and nothing lost when a client leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowq import ManualClock
from rowq.server.api import events
from tests.server.dialogue import Dialogue
from tests.server.support import ask, serving
from tests.support.patience import eventually
from tests.support.server import Server


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that is full looks more often than it does in earnest."""
    monkeypatch.setattr(events, "LOOK_EVERY", 0.1)


@pytest.fixture
def server(tmp_path: Path, quick: None) -> Iterator[Server]:
    with serving(tmp_path) as server:
        yield server


def send(server: Server, *payloads: Any) -> list[str]:
    answer = ask(server, "POST", "/v1/queues/q/messages", {"messages": [{"payload": payload} for payload in payloads]})
    assert answer.status == 201
    ids: list[str] = answer.json["ids"]
    return ids


def listen(server: Server, query: str = "") -> Dialogue:
    dialogue = Dialogue(server)
    dialogue.ask("GET", f"/v1/queues/q/deliveries{query}")
    status, headers = dialogue.head()
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    return dialogue


def settle(server: Server, verb: str, delivery: dict[str, Any], **more: Any) -> None:
    assert ask(server, "POST", f"/v1/{verb}", {"receipts": [delivery["receipt"]], **more}).json["results"][0]["outcome"] == "done"


def states(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = ask(server, "GET", "/v1/queues/q/stats").json
    return found


def test_messages_come_as_they_are_sent(server: Server) -> None:
    with listen(server) as stream:
        ids = send(server, {"n": 1}, {"n": 2})
        first, second = stream.event(), stream.event()
    assert [name for name, _ in (first, second)] == ["delivery", "delivery"]
    assert [data["payload"] for _, data in (first, second)] == [{"n": 1}, {"n": 2}]
    assert [data["id"] for _, data in (first, second)] == ids


def test_the_last_event_id_of_a_client_that_comes_back_does_no_harm(server: Server) -> None:
    send(server, 1)
    with Dialogue(server) as stream:
        stream.ask("GET", "/v1/queues/q/deliveries", Last_Event_ID="01a1df7e-3117-7000-8000-000000000001")
        assert stream.head()[0] == 200
        assert stream.event()[1]["payload"] == 1


def test_no_more_are_unacknowledged_than_asked_for(server: Server) -> None:
    send(server, 1, 2, 3)
    with listen(server, "?in_flight=2&ping_ms=100") as stream:
        first, second = stream.event()[1], stream.event()[1]
        assert stream.event() == ("ping", {})
        assert states(server)["ready"] == 1
        settle(server, "ack", second)
        name, third = _next_delivery(stream)
        assert (name, third["payload"]) == ("delivery", 3)
        settle(server, "ack", first)
        settle(server, "nack", third, reason="no")
    eventually(lambda: states(server)["scheduled"] == 1)


def test_an_ack_that_came_another_way_makes_room_too(server: Server) -> None:
    send(server, 1, 2)
    with listen(server, "?in_flight=1&ping_ms=100") as stream:
        delivery = stream.event()[1]
        server.engine.driver.drive(server.engine.verbs.settle(delivery["receipt"], _ack()))
        assert _next_delivery(stream)[1]["payload"] == 2


def test_a_lease_that_ran_out_makes_room(server: Server) -> None:
    send(server, 1)
    with listen(server, "?in_flight=1&ping_ms=100&lease_ms=200") as stream:
        assert stream.event()[1]["attempt"] == 1
        assert _next_delivery(stream)[1]["attempt"] == 2


def test_an_extended_lease_makes_no_room(tmp_path: Path, quick: None) -> None:
    """The stream looks between two pings: then the first lease is over, and the second is not."""
    clock = ManualClock()
    with serving(tmp_path, clock=clock, maintenance=False) as server:
        send(server, 1, 2)
        with listen(server, "?in_flight=1&ping_ms=100&lease_ms=400") as stream:
            settle(server, "extend", stream.event()[1], lease_ms=60_000)
            clock.advance(1)
            assert [stream.event()[0] for _ in range(3)] == ["ping"] * 3


def test_what_was_written_waits_for_its_lease_and_the_rest_stays_ready(server: Server) -> None:
    send(server, *range(5))
    with listen(server, "?in_flight=2") as stream:
        stream.event()
        stream.event()
        stream.leave()
    eventually(lambda: server.connections == 0)
    assert (states(server)["ready"], states(server)["leased"]) == (3, 2)


def test_a_quiet_stream_is_kept_alive(server: Server) -> None:
    with listen(server, "?ping_ms=100") as stream:
        assert [stream.event() for _ in range(3)] == [("ping", {})] * 3


def test_a_stopping_server_ends_its_streams(server: Server) -> None:
    with listen(server) as stream, Dialogue(server) as watch:
        watch.ask("GET", "/v1/keys/watch")
        assert watch.head()[0] == 200
        eventually(lambda: server.engine.waiting == 1)
        server.call(server.service.stop)
        assert stream.event()[0] == "end"
        assert watch.event()[0] == "end"


def test_payloads_with_line_breaks_stay_one_event(server: Server) -> None:
    raw = b'{"payload": {\n"a":\r\n1}}'
    assert ask(server, "POST", "/v1/queues/q/messages", raw).status == 201
    with listen(server) as stream:
        assert stream.event()[1]["payload"] == {"a": 1}


@pytest.mark.parametrize("query", ["in_flight=0", "in_flight=1001", "in_flight=x", "lease_ms=0", "ping_ms=1", "unknown=1"])
def test_a_wrong_query_is_told_before_anything_is_taken(server: Server, query: str) -> None:
    send(server, 1)
    assert ask(server, "GET", f"/v1/queues/q/deliveries?{query}").problem == (400, "invalid_argument")
    assert states(server)["ready"] == 1


def test_undelivered_keys_are_told_as_they_come_and_go(server: Server) -> None:
    with Dialogue(server) as watch:
        watch.ask("GET", "/v1/keys/watch?prefix=orders")
        assert watch.head()[0] == 200
        body = {"payload": {"n": 7}, "keys_if_undelivered": [["orders", 7], ["others", 7]]}
        ask(server, "POST", "/v1/queues/q/messages", body)
        delivery = ask(server, "POST", "/v1/queues/q/deliveries").json["deliveries"][0]
        settle(server, "reject", delivery)
        name, data = watch.event()
        assert (name, data["key"], data["value"]) == ("set", ["orders", 7], {"n": 7})
        assert ask(server, "DELETE", '/v1/keys?key=["orders",7]').status == 204
        assert watch.event() == ("removed", {"key": ["orders", 7]})


def _next_delivery(stream: Dialogue) -> tuple[str, Any]:
    return next((name, data) for name, data in iter(stream.event, ("end", None)) if name == "delivery")


def _ack() -> Any:
    from rowq.model.lifecycle import Ack

    return Ack()
