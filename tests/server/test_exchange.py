"""Requests whose head the server has seen before are served without the parser: nothing else about them may differ."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httptools
import pytest

from rowq.server.http import connection
from rowq.server.http.exchange import MAX_HEADS, Exchange, Heads, Known
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

    def test_a_request_that_is_repeated_under_its_key_is_sent_once(self, server: Server, counted: Callable[[], int]) -> None:
        with Dialogue(server) as client:
            keys = ["0", "a-b", "x" * 64, "a-b", "x" * 64, "0"]
            answers = [told(client, SEND, {"payload": 1}, Idempotency_Key=key) for key in keys]
            assert counted() == 5
            assert told(client, SEND, {"payload": 1}, Idempotency_Key="x" * 65)[0] == 201
            assert told(client, SEND, {"payload": 1}, Idempotency_Key="é")[0] == 400
            assert told(client, SEND, {"payload": 1}, Idempotency_Key="")[0] == 400
            assert counted() == 0
        assert answers[:3] == [answers[5], answers[3], answers[4]]
        assert states(server)["ready"] == 4


class Parsed:
    """One request as the parser reads it."""

    def __init__(self, data: bytes) -> None:
        self.url, self.body, self.begun, self.done = b"", b"", 0, 0
        self.headers: list[tuple[bytes, bytes]] = []
        parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.done = 0
        is_one = (self.begun, self.done) == (1, 1)
        self.may_be_known = is_one and parser.should_keep_alive() and (parser.get_method(), parser.get_http_version()) == (b"POST", "1.1")

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.done += 1

    @property
    def scope(self) -> dict[str, Any]:
        rest = dict.fromkeys(("type", "scheme", "method", "path", "query_string", "root_path"), "")
        return rest | {"http_version": "1.1", "headers": self.headers, "raw_path": self.url}

    @property
    def lasting(self) -> Any:
        return self.url, [field for field in self.headers if field[0] not in (b"content-length", b"idempotency-key")]


class Learner:
    """Takes every request."""

    def __init__(self) -> None:
        self.heads = Heads()

    def find_handler(self, scope: Any) -> Any:
        return lambda exchange: exchange

    def learn(self, data: bytes) -> None:
        parsed = Parsed(data)
        if parsed.may_be_known:
            self.heads.learn(data, parsed.scope, self)


class TestHeads:
    def test_a_full_memory_starts_again(self) -> None:
        def head(number: int) -> bytes:
            return b"POST /%d HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}" % number

        learner = Learner()
        for number in range(MAX_HEADS + 1):
            learner.learn(head(number))
        assert learner.heads.find(head(0)) is None
        assert learner.heads.find(head(MAX_HEADS)) is not None

    def test_what_is_known_is_what_the_parser_would_read(self) -> None:
        """Of requests that were spoilt in every way, each is left to the parser, or known as exactly the request that the parser sees."""
        learner, chance, found = Learner(), random.Random(20), 0
        for _ in range(10_000):
            data = _request(chance)
            known = learner.heads.find(data)
            if known is not None:
                found += 1
                parsed = Parsed(data)
                assert parsed.may_be_known, data
                assert known[1] == parsed.body, data
                assert [known[2]] * (known[2] is not None) == [value for name, value in parsed.headers if name == b"idempotency-key"], data
                lasting = [field for field in known[0].scope["headers"] if field[0] not in (b"content-length", b"idempotency-key")]
                assert (known[0].scope["raw_path"], lasting) == parsed.lasting, data
            learner.learn(data)
        assert found > 1_000


_SPOILING = (
    *(b"Content-Length: ", b"Idempotency-Key: ", b"ength: ", b"dempotency-", b"Transfer-Encoding: chunked", b"Connection: close"),
    *(b"\r\n", b"\r\n\r\n", b"\r", b"\n", b" ", b"\t", b"\0", b":", b"0", b"14", b"a-b", b"{}", b"POST /q HTTP/1.1"),
)


def _request(chance: random.Random) -> bytes:
    body = bytes(chance.choices(b"ab\r\n:{}", k=chance.randrange(15)))
    lines = [b"Host: x", b"Content-Length: %d" % len(body)]
    if chance.random() < 0.5:
        lines.append(b"Idempotency-Key: " + chance.choice((b"k", b"a-b", b"", b"x y", b"z" * 70)))
    if chance.random() < 0.3:
        lines.append(chance.choice((b"X-Length: 3", b"Note: length: 4", b"X-Idempotency-Key: 5", b"A: b")))
    chance.shuffle(lines)
    data = b"\r\n".join([b"POST /q HTTP/1.1", *lines, b"", body])
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        place, lost = chance.randrange(len(data) + 1), chance.choice((0, 0, 1, 5))
        data = data[:place] + (b"" if lost else chance.choice(_SPOILING)) + data[place + lost :]
    return data


class TestNotKnown:
    @pytest.mark.parametrize(
        "headers",
        [
            {"Connection": "close"},
            {"Idempotency-Key": "a key"},
            {"X-Idempotency-Key": "k", "Idempotency-Key": "k"},
            {"Idempotency-Key": "k", "idempotency-key": "k"},
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

    @pytest.mark.parametrize("line", [b"X-Length: 14", b"Note: length: 14"])
    def test_only_the_length_of_the_body_may_vary(self, server: Server, line: bytes, counted: Callable[[], int]) -> None:
        """Another number that is taken for the length would let one request hide in the body of another."""
        request = b"POST %b HTTP/1.1\r\nHost: localhost\r\n%b\r\nContent-Length: 14\r\n\r\n" % (SEND.encode(), line)
        with Dialogue(server) as client:
            for _ in range(3):
                client.say(request + b'{"payload": 1}')
                assert client.answer()[0] == 201
        assert counted() == 0


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


def test_the_head_of_a_stranger_is_not_kept(server: Server, counted: Callable[[], int]) -> None:
    with Dialogue(server) as client:
        for _ in range(3):
            assert told(client, SEND, {"payload": 1}, Origin="http://rebound.example")[0] == 403
    assert counted() == 0


def test_reading_goes_on_behind_a_wait(server: Server, counted: Callable[[], int]) -> None:
    """A request behind a long poll pauses it, and a server that does not read never learns that its client has left."""
    with Dialogue(server) as client:
        assert told(client, RECEIVE, {"wait_ms": 0})[0] == 200
        counted()
        one: Any = next(iter(server._state.connections))
        client.ask("POST", RECEIVE, {"wait_ms": 60_000})
        eventually(lambda: counted() == 1)
        server.call(one.flow.pause_reading)  # as if the request had come before the poll began to wait
        server.call(one.cycle.hurry)
        client.answer()
        client.ask("POST", RECEIVE, {"wait_ms": 60_000})
        eventually(lambda: server.engine.waiting == 1)
        assert not one.flow.read_paused
    eventually(lambda: server.engine.waiting == 0)


def test_an_idle_connection_is_closed_so_long_after_its_last_answer(server: Server) -> None:
    with Dialogue(server) as client:
        eventually(lambda: server.connections == 1)
        one: Any = next(iter(server._state.connections))
        for _ in range(3):
            assert told(client, SEND, {"payload": 1})[0] == 201
            server.call(one.timeout_keep_alive_handler)  # the timer of an earlier answer: the last one is younger
        server.call(lambda: setattr(one, "_idle_since", one._idle_since - one.timeout_keep_alive))
        server.call(one.timeout_keep_alive_handler)
        assert client.rest() == b""


def test_a_handler_may_give_way_to_others() -> None:
    """As `asyncio.sleep(0)` does, which waits for no future."""

    async def serve() -> list[str]:
        done: list[str] = []

        async def handler(_: Exchange) -> None:
            await asyncio.sleep(0)
            done.append("served")

        protocol: Any = SimpleNamespace(tasks=set(), loop=asyncio.get_running_loop(), on_response_complete=lambda: None)
        Exchange(protocol, Known({}, handler), b"", None).run()
        assert len(protocol.tasks) == 1
        done.append("given way")
        await asyncio.wait(protocol.tasks)
        return done

    assert asyncio.run(serve()) == ["given way", "served"]
