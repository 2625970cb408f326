"""What a stranger tried: pages of other sites, keys that were revoked, clients that do not read, servers that stop in the middle."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import rowq
from rowq.server.http import bounded
from tests.server.support import ask, key, serving
from tests.support.patience import eventually

HOST = "Host: localhost"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/queues/q/deliveries"), ("POST", "/v1/queues/q/messages"), ("GET", "/v1/queues")])
def test_what_a_page_of_another_site_asks_is_refused_also_without_an_origin(tmp_path: Path, method: str, path: str, site: str) -> None:
    with serving(tmp_path) as server:
        ask(server, "POST", "/v1/queues/q/messages", {"payload": 1})
        refused = ask(server, method, path, {"payload": 2}, headers={"sec-fetch-site": site})
        assert refused.problem == (403, "forbidden")
        assert ask(server, "GET", "/v1/queues/q/stats", headers={"sec-fetch-site": "same-origin"}).json["ready"] == 1


def test_credentials_that_a_browser_adds_serve_no_page_of_another_site(tmp_path: Path) -> None:
    with serving(tmp_path, key("boss", "receive")) as server:
        basic = {"authorization": "Basic Ym9zczpyb3dxX2Jvc3M="}
        assert ask(server, "GET", "/v1/queues", headers=basic).status == 200
        for foreign in ({"origin": "https://example.com"}, {"sec-fetch-site": "cross-site"}):
            assert ask(server, "GET", "/v1/queues/q/deliveries", headers={**basic, **foreign}).problem == (403, "forbidden")


@pytest.mark.parametrize("host", ["@localhost", "localhost#", "localhost?", "localhost/x", "local\thost"])
def test_odd_spellings_of_this_machine_are_not_this_machine(tmp_path: Path, host: str) -> None:
    with serving(tmp_path) as server:
        assert ask(server, "GET", "/v1/queues", headers={"host": host}).status in (400, 403)


def test_a_stream_ends_with_the_key_that_opened_it(tmp_path: Path) -> None:
    with serving(tmp_path, key("admin", "admin")) as server:
        made = ask(server, "POST", "/v1/api-keys", {"name": "short", "scopes": ["receive"]}, secret="rowq_admin").json
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as stream:
            stream.sendall(f"GET /v1/queues/q/deliveries?ping_ms=100 HTTP/1.1\r\n{HOST}\r\nX-API-Key: {made['secret']}\r\n\r\n".encode())
            eventually(lambda: server.engine.waiting == 1)
            assert ask(server, "DELETE", "/v1/api-keys/short", secret="rowq_admin").status == 204
            ask(server, "POST", "/v1/queues/q/messages", {"payload": "secret thing"}, secret="rowq_admin")
            told = stream.makefile("rb")
            lines = [line.strip() for line in iter(told.readline, b"0\r\n")]
        assert b"event: problem" in lines
        assert not any(b"secret thing" in line for line in lines)
        eventually(lambda: ask(server, "GET", "/v1/queues/q/stats", secret="rowq_admin").json["ready"] == 1)


@pytest.mark.parametrize(
    "said",
    [
        f"GET /v1/queues HTTP/1.1\r\n{HOST}\r\n\r\n",
        f'POST /v1/queues/q/messages HTTP/1.1\r\n{HOST}\r\nContent-Length: 13\r\n\r\n{{"payload":1}}',
    ],
    ids=["looking", "sending"],
)
def test_a_connection_that_piles_up_requests_is_ended(tmp_path: Path, caplog: pytest.LogCaptureFixture, said: str) -> None:
    with serving(tmp_path) as server:
        ask(server, "PUT", "/v1/queues/q", {})
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as greedy:
            greedy.sendall(said.encode() * 1_000)
            told = greedy.makefile("rb").read()
        assert told.count(b" 429 ") == 1
        answered = told.count(b"HTTP/1.1 20")
        assert answered < 1_000
        eventually(lambda: server.connections == 0)
        sent = ask(server, "GET", "/v1/queues/q/stats").json["ready"]
        assert sent == (answered if "POST" in said else 0), "some were served with nobody left to answer"
        assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_client_that_reads_nothing_is_taken_for_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "UNREAD_TIMEOUT", 0.3)
    with serving(tmp_path) as server:
        for _ in range(40):
            ask(server, "POST", "/v1/queues/q/messages", {"payload": "x" * 200_000})
        with socket.socket() as idle:
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            idle.connect(("127.0.0.1", server.port))
            idle.sendall(f"GET /v1/queues/q/deliveries?in_flight=40&lease_ms=3600000 HTTP/1.1\r\n{HOST}\r\n\r\n".encode())
            eventually(lambda: ask(server, "GET", "/v1/queues/q/stats").json["leased"] > 0)
            eventually(lambda: server.connections <= 1)
        eventually(lambda: ask(server, "GET", "/v1/queues/q/stats").json["ready"] > 0)


def test_a_redrive_that_a_stop_cuts_short_is_not_done_twice(tmp_path: Path) -> None:
    """The client must not take "stopped in the middle" for "nothing was done"."""
    with serving(tmp_path) as server, rowq.connect(server.url) as broker:
        for number in range(3):
            broker.send("q", number)
        broker.reject_many(broker.receive("q", max=3))
        server.service.is_stopping = True
        with pytest.raises(rowq.OutcomeUnknown):
            broker.redrive("q", limit=2)
        assert broker.stats("q").ready <= 2


def test_an_idempotency_key_is_its_callers_own_and_stands_for_all_that_was_said(tmp_path: Path) -> None:
    with serving(tmp_path, key("a", "send", "admin"), key("b", "send")) as server:
        first = {"idempotency-key": "k"}
        path = "/v1/queues/q/messages"
        id = ask(server, "POST", path, {"payload": 1}, secret="rowq_a", headers=first).json["id"]
        assert ask(server, "POST", path, {"payload": 1}, secret="rowq_a", headers=first).json["id"] == id
        assert ask(server, "POST", path, {"payload": 1}, secret="rowq_b", headers=first).json["id"] != id
        assert ask(server, "POST", path, {"payload": 1, "delay_ms": 5}, secret="rowq_a", headers=first).problem == (409, "request_conflict")
        assert ask(server, "DELETE", "/v1/queues/q", secret="rowq_a").status == 204
        assert ask(server, "POST", path, {"payload": 1}, secret="rowq_a", headers=first).json["id"] != id


def test_a_limited_key_cannot_tell_a_strangers_message_from_none(tmp_path: Path) -> None:
    with serving(tmp_path, key("admin", "admin"), key("mine", "receive", queues=("mine.*",))) as server:
        ask(server, "POST", "/v1/queues/other/messages", {"payload": 1, "id": "there"}, secret="rowq_admin")
        for path in ("/v1/messages/{}", "/v1/messages/{}/audit"):
            known, unknown = (ask(server, "GET", path.format(id), secret="rowq_mine") for id in ("there", "nowhere"))
            assert known.problem == unknown.problem == (404, "message_not_found")
            assert known.json["error"].replace("'there'", "?") == unknown.json["error"].replace("'nowhere'", "?")


def test_what_operators_did_to_other_queues_takes_no_room(tmp_path: Path) -> None:
    with serving(tmp_path, key("admin", "admin"), key("clerk", "admin", queues=("mine",))) as server:
        for queue in ("mine", "other"):
            assert ask(server, "POST", f"/v1/queues/{queue}/messages", {"payload": 1}, secret="rowq_admin").status == 201
        ask(server, "POST", "/v1/queues/mine/pause", secret="rowq_admin")
        for _ in range(3):
            ask(server, "POST", "/v1/queues/other/pause", secret="rowq_admin")
        events = ask(server, "GET", "/v1/actions?limit=1", secret="rowq_clerk").json["events"]
        assert [event["queue"] for event in events] == ["mine"]
