"""Requests whose head the server has seen before are served without the parser: nothing else about them may differ."""

from __future__ import annotations

import base64
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rowq.server.http import connection
from rowq.server.http.exchange import MAX_HEADS, Exchange, Heads
from rowq.server.service import Limits
from tests.server.dialogue import Dialogue
from tests.server.support import ADMIN, key, serving
from tests.support.patience import eventually
from tests.support.server import Server

SEND, RECEIVE = "/v1/queues/q/messages", "/v1/queues/q/deliveries"


class Counted(Exchange):
    __slots__ = ()
    count = 0

    def __init__(self, *arguments: Any) -> None:
        Counted.count += 1
        super().__init__(*arguments)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many requests were served as exchanges since the last look."""
    monkeypatch.setattr(connection, "Exchange", Counted)
    Counted.count = 0

    def look() -> int:
        count, Counted.count = Counted.count, 0
        return count

    return look


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, limits=Limits(max_body_bytes=1_000)) as server:
        yield server


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, key("admin", "admin")) as server:
        learn(server, key("client", "send"))
        yield server


def learn(server: Server, *keys: Any) -> None:
    server.call(lambda: server.service.authenticator.learn(list(keys)))


def told(dialogue: Dialogue, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    dialogue.ask("POST", path, {} if body is None else body, **headers)
    return dialogue.answer()


def states(server: Server) -> dict[str, Any]:
    with Dialogue(server) as other:
        other.ask("GET", "/v1/queues/q/stats")
        found: dict[str, Any] = other.answer()[1]
    return found


class TestKnown:
    def test_a_head_is_known_on_every_connection_whatever_the_length_of_the_body(self, server: Server, counted: Callable[[], int]) -> None:
        payloads = ["x" * size for size in (0, 1, 10, 100, 500)]
        with Dialogue(server) as first:
            assert told(first, SEND, {"payload": "first"})[0] == 201
            assert counted() == 0
            assert [told(first, SEND, {"payload": payload})[0] for payload in payloads] == [201] * 5
        with Dialogue(server) as second:
            assert told(second, SEND, {"payload": "last"})[0] == 201
            assert counted() == 6
            status, answer = told(second, RECEIVE, {"max": 10})
        assert (status, [delivery["payload"] for delivery in answer["deliveries"]]) == (200, ["first", *payloads, "last"])

    def test_receive_and_ack_take_turns(self, server: Server, counted: Callable[[], int]) -> None:
        with Dialogue(server) as client:
            for number in range(3):
                told(client, SEND, {"payload": number})
                (delivery,) = told(client, RECEIVE)[1]["deliveries"]
                assert delivery["payload"] == number
                _, answer = told(client, "/v1/ack", {"receipts": [delivery["receipt"]]})
                assert answer == {"results": [{"receipt": delivery["receipt"], "outcome": "done"}]}
        assert counted() == 6

    def test_errors_are_answered_and_the_connection_goes_on(self, server: Server, counted: Callable[[], int]) -> None:
        with Dialogue(server) as client:
            assert told(client, SEND, {"payload": 1})[0] == 201
            assert told(client, SEND, {"payload": 1, "payload_base64": ""})[0] == 400
            assert told(client, SEND, [1])[1]["code"] == "invalid_argument"
            assert told(client, SEND, {"payload": "x" * 1_000})[1]["code"] == "body_too_large"
            assert told(client, SEND, {"payload": 2})[0] == 201
        assert counted() == 4

    def test_a_full_memory_starts_again(self) -> None:
        class Application:
            heads = Heads()

            def find_handler(self, scope: Any) -> Any:
                return lambda exchange: exchange

        def head(number: int) -> bytes:
            return b"POST /%d HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}" % number

        scope = dict.fromkeys(("type", "scheme", "method", "path", "raw_path", "query_string", "root_path"), "") | {
            "http_version": "1.1",
            "headers": [],
        }
        application = Application()
        for number in range(MAX_HEADS + 1):
            application.heads.learn(head(number), scope, application)
        assert application.heads.find(head(0)) is None
        assert application.heads.find(head(MAX_HEADS)) is not None


class TestNotKnown:
    @pytest.mark.parametrize(
        "headers",
        [
            {"Connection": "close"},
            {"Idempotency-Key": "k"},
            {"Expect": "nothing"},
            {"Long": "x" * 4_096},
        ],
    )
    def test_some_requests_are_never_remembered(self, server: Server, headers: dict[str, str], counted: Callable[[], int]) -> None:
        for _ in range(3):
            with Dialogue(server) as client:
                assert told(client, SEND, {"payload": 1}, **headers)[0] in (201, 417)
        assert counted() == 0

    def test_keys_that_are_not_known_are_not_remembered(self, guarded: Server, counted: Callable[[], int]) -> None:
        with Dialogue(guarded) as client:
            assert [told(client, SEND, {"payload": 1}, X_API_Key="wrong")[0] for _ in range(3)] == [401] * 3
            assert [told(client, SEND, {"payload": 1})[0] for _ in range(3)] == [401] * 3
        assert counted() == 0

    def test_basic_credentials_are_asked_for_their_page_each_time(self, guarded: Server, counted: Callable[[], int]) -> None:
        basic = "Basic " + base64.b64encode(b"client:rowq_client").decode()
        with Dialogue(guarded) as client:
            assert [told(client, SEND, {"payload": 1}, Authorization=basic)[0] for _ in range(3)] == [201] * 3
        assert counted() == 0

    def test_a_client_whose_heads_are_always_new_is_no_longer_looked_up(self, server: Server, counted: Callable[[], int]) -> None:
        with Dialogue(server) as client:
            for number in range(connection._TRIES):
                told(client, SEND, {"payload": 1}, Number=str(number))
            assert [told(client, SEND, {"payload": 1}, Number="0")[0] for _ in range(2)] == [201] * 2
        assert counted() == 0

    def test_a_length_that_is_not_that_of_the_body_is_left_to_the_parser(self, server: Server, counted: Callable[[], int]) -> None:
        head = f"POST {SEND} HTTP/1.1\r\nHost: localhost\r\nContent-Length: %s\r\n\r\n"
        body = b'{"payload": 1}'
        with Dialogue(server) as client:
            client.say(head.encode() % b"14" + body)
            assert client.answer()[0] == 201
            client.say(head.encode() % b"14" + body[:5])
            client.say(body[5:])
            assert client.answer()[0] == 201
            client.say(head.encode() % b"14" + body + head.encode() % b"14" + body)
            assert [client.answer()[0], client.answer()[0]] == [201, 201]
            assert counted() == 0
            client.say(head.encode() % b"014" + body)
            assert client.answer()[0] == 201
            assert counted() == 1
            client.say(head.encode() % b"+14" + body)
            assert client.answer()[0] == 400
        assert states(server)["ready"] == 5


class TestKeys:
    @pytest.mark.parametrize("header", [{"X_API_Key": "rowq_client"}, {"Authorization": "Bearer rowq_client"}])
    def test_a_revoked_key_is_refused_from_then_on(self, guarded: Server, header: dict[str, str], counted: Callable[[], int]) -> None:
        with Dialogue(guarded) as client:
            assert [told(client, SEND, {"payload": 1}, **header)[0] for _ in range(2)] == [201] * 2
            learn(guarded)
            assert [told(client, SEND, {"payload": 1}, **header)[0] for _ in range(11)] == [401] * 10 + [429]
            learn(guarded, key("client", "send"))
            assert told(client, SEND, {"payload": 1}, **header)[0] == 429, "its address is locked out, as by wrong keys"
        assert counted() == 13

    def test_a_key_has_the_rights_that_it_has_now(self, guarded: Server, counted: Callable[[], int]) -> None:
        with Dialogue(guarded) as client:
            assert [told(client, SEND, {"payload": 1}, X_API_Key="rowq_client")[0] for _ in range(2)] == [201] * 2
            learn(guarded, key("client", "send", queues=("other",)))
            assert told(client, SEND, {"payload": 1}, X_API_Key="rowq_client")[0] == 403
            learn(guarded, key("client", "send"))
            assert told(client, SEND, {"payload": 1}, X_API_Key="rowq_client")[0] == 201
        assert counted() == 3

    def test_an_address_that_is_locked_out_is_refused(self, guarded: Server, counted: Callable[[], int]) -> None:
        with Dialogue(guarded) as client:
            assert [told(client, SEND, {"payload": 1}, X_API_Key=ADMIN)[0] for _ in range(2)] == [201] * 2
            with Dialogue(guarded) as attacker:
                for _ in range(10):
                    told(attacker, SEND, {"payload": 1}, X_API_Key="wrong")
            client.ask("POST", SEND, {"payload": 1}, X_API_Key=ADMIN)
            status, headers = client.head()
        assert (status, headers["retry-after"]) == (429, "60")
        assert counted() == 2

    def test_an_open_server_that_gets_its_first_key_asks_for_it(self, server: Server, counted: Callable[[], int]) -> None:
        with Dialogue(server) as client:
            assert [told(client, SEND, {"payload": 1})[0] for _ in range(2)] == [201] * 2
            learn(server, key("client", "send"))
            assert told(client, SEND, {"payload": 1})[0] == 401
        assert counted() == 2


class TestWaiting:
    @pytest.fixture
    def patient(self, server: Server, counted: Callable[[], int]) -> Iterator[Dialogue]:
        """Its poll waits, as an exchange."""
        with Dialogue(server) as patient:
            assert told(patient, RECEIVE) == (200, {"deliveries": []})
            patient.ask("POST", RECEIVE, {"wait_ms": 20_000})
            eventually(lambda: server.engine.waiting == 1)
            assert counted() == 1
            yield patient

    def send(self, server: Server) -> None:
        with Dialogue(server) as other:
            assert told(other, SEND, {"payload": "x"})[0] == 201

    def test_a_message_ends_the_wait(self, server: Server, patient: Dialogue) -> None:
        self.send(server)
        assert [delivery["payload"] for delivery in patient.answer()[1]["deliveries"]] == ["x"]

    def test_a_client_that_leaves_takes_nothing_along(self, server: Server, patient: Dialogue) -> None:
        patient.leave()
        eventually(lambda: server.engine.waiting == 0)
        self.send(server)
        assert states(server)["ready"] == 1
        eventually(lambda: not server.call(lambda: server._state.tasks))

    def test_an_empty_line_ends_the_wait(self, patient: Dialogue) -> None:
        patient.say(b"\r\n")
        assert patient.answer() == (200, {"deliveries": []})
        assert told(patient, RECEIVE) == (200, {"deliveries": []})

    def test_a_request_behind_it_is_answered_after_it(self, server: Server, patient: Dialogue) -> None:
        patient.ask("POST", SEND, {"payload": "behind"})
        self.send(server)
        assert [delivery["payload"] for delivery in patient.answer()[1]["deliveries"]] == ["x"]
        assert patient.answer()[0] == 201

    def test_garbage_behind_it_is_answered_after_it(self, server: Server, patient: Dialogue) -> None:
        patient.say(b"garbage\r\n\r\n")
        self.send(server)
        assert patient.answer()[0] == 200
        assert patient.answer()[0] == 400

    def test_a_server_that_stops_answers_and_closes(self, server: Server, patient: Dialogue) -> None:
        server.call(lambda: [client.shutdown() for client in server._state.connections])
        server.call(server.service.stop)
        status, headers = patient.head()
        assert (status, headers["connection"]) == (200, "close")
        assert patient.rest() == b'{"deliveries":[]}'

    def test_a_server_that_cannot_wait_says_so(self, server: Server, patient: Dialogue) -> None:
        server.call(lambda: [task.cancel() for task in server._state.tasks])
        status, headers = patient.head()
        assert (status, headers["connection"]) == (500, "close")
        assert b'"internal"' in patient.rest()
        eventually(lambda: server.engine.waiting == 0)


def test_an_idle_connection_is_closed_so_long_after_its_last_answer(server: Server) -> None:
    idle = 0.4
    with Dialogue(server) as client:
        eventually(lambda: server.connections == 1)
        one: Any = next(iter(server._state.connections))
        one.timeout_keep_alive = idle
        for _ in itertools.repeat(None, 3):
            last = time.monotonic()
            assert told(client, SEND, {"payload": 1})[0] == 201
            time.sleep(idle / 2)
        assert client.rest() == b""
        assert time.monotonic() - last >= idle * 0.95
