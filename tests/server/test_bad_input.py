"""What no sensible client sends: it is refused with the right status, a stable code and a sentence, and the server goes on serving."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rowq.server.auth.authentication import Authenticator
from rowq.server.auth.lockout import FAILURES
from rowq.server.service import Limits
from tests.server.support import ADMIN, PATIENCE, ask, ask_raw, key, read_answer, request, serving
from tests.support.patience import eventually
from tests.support.server import Server

SEND, RECEIVE, ACK = "/v1/queues/q/messages", "/v1/queues/q/deliveries", "/v1/ack"
INVALID = (400, "invalid_argument")
MAX_BODY = 100_000
DEEP = 10_000


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("bad"), limits=Limits(max_body_bytes=MAX_BODY)) as server:
        yield server


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """For bodies that do not arrive. A busy machine may delay any other body for as long."""
    with serving(tmp_path_factory.mktemp("impatient"), limits=Limits(body_timeout=0.2)) as server:
        yield server


@pytest.fixture
def server(shared: Server) -> Iterator[Server]:
    """Whatever a test sends, afterwards a message goes in and comes out, and nobody is left over."""
    yield shared
    sent = ask(shared, "POST", "/v1/queues/after/messages", {"payload": "still here"})
    assert sent.status == 201
    (delivery,) = ask(shared, "POST", "/v1/queues/after/deliveries", {}).json["deliveries"]
    assert (delivery["id"], delivery["payload"]) == (sent.json["id"], "still here")
    assert ask(shared, "POST", ACK, {"receipts": [delivery["receipt"]]}).json["results"][0]["outcome"] == "done"
    eventually(lambda: shared.connections == 0)


def sent_nothing(server: Server) -> bool:
    """A queue comes with its first message."""
    return ask(server, "GET", "/v1/queues/q/stats").problem == (404, "queue_not_found")


def heard(server: Server, data: bytes, *, is_last: bool = False) -> bytes:
    """All that the server says until it hangs up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(data)
        if is_last:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize(("field", "meant"), [("at", "at_ms"), ("delay", "delay_ms"), ("prioriti", "priority")])
def test_a_mistyped_field_is_asked_back(server: Server, field: str, meant: str) -> None:
    answer = ask(server, "POST", SEND, {"payload": 1, field: 5})
    assert answer.problem == INVALID and f"did you mean `{meant}`?" in answer.json["error"]


@pytest.mark.parametrize(
    "fields", [{"at_ms": -1}, {"at_ms": 1 << 62}, {"at_ms": "soon"}, {"at_ms": 1, "delay_ms": 1}, {"at_ms": 253_402_300_799_999}]
)
def test_a_moment_is_one_that_a_message_can_wait_for(server: Server, fields: dict[str, Any]) -> None:
    assert ask(server, "POST", SEND, {"payload": 1, **fields}).problem == INVALID
    assert sent_nothing(server)


class TestBodies:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"null",
            b"[]",
            b"1",
            b'"text"',
            b'{"payload":}',
            b'{"payload":1}x',
            b"{'payload':1}",
            b'{"payload":1,}',
            b'{"payload":NaN}',
            b'{"payload":Infinity}',
            b'{"payload":1e999}',
            b'{"payload":[-1e999]}',
            b'{"payload":01}',
            b'{"payload":"\xff"}',
            b'{"payload":"\xed\xa0\x80"}',
            b'{"payload":"\\ud800"}',
            b'{"payload":{"\\udfff":1}}',
            b'{"payload":"\x00"}',
            b'{"payload":"\\x"}',
            b"\xef\xbb\xbf{}",
            b"\xff\xfe{\x00}\x00",
            b'{"payload":' + b"[" * DEEP + b"]" * DEEP + b"}",
            b'{"payload":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
            b"[" * DEEP,
            b'{"payload":' + b"[" * 202 + b"]" * 202 + b"}",
        ],
        ids=lambda body: repr(body[:24]),
    )
    def test_what_is_no_json_is_refused(self, server: Server, body: bytes) -> None:
        assert ask(server, "POST", SEND, body).problem == INVALID
        assert sent_nothing(server)

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"payload": 1, "payload_base64": "AA=="},
            {"payload": 1, "messages": []},
            {"messages": [], "priority": 1},
            {"messages": [{"payload": 1}], "key": "a"},
            {"messages": {}},
            {"messages": [1]},
            {"messages": [{"messages": []}]},
            {"messages": [{"payload": 1}, {}]},
            {"payload_base64": "no base64!"},
            {"payload_base64": "AA"},
            {"payload_base64": "ÄÖ=="},
            {"payload_base64": 1},
            {"payload_base64": None},
            {"payload": 1, "unknown": 1},
            {"Payload": 1},
            {"payload": 1, "priority": "high"},
            {"payload": 1, "priority": 1 << 31},
            {"payload": 1, "priority": 1.5},
            {"payload": 1, "priority": None},
            {"payload": 1, "priority": True},
            {"payload": 1, "priority": 10**400},
            {"payload": 1, "delay_ms": -1},
            {"payload": 1, "delay_ms": 10**30},
            {"payload": 1, "ttl_ms": "1"},
            {"payload": 1, "deadline_ms": 0},
            {"payload": 1, "max_attempts": -1},
            {"payload": 1, "headers": []},
            {"payload": 1, "headers": {"a": 1}},
            {"payload": 1, "headers": {"a": None}},
            {"payload": 1, "headers": {"a": "\0"}},
            {"payload": 1, "headers": {"a": "x" * 40_000}},
            {"payload": 1, "key": ""},
            {"payload": 1, "key": "a\0b"},
            {"payload": 1, "key": "\ud800"},
            {"payload": 1, "key": "k" * 256},
            {"payload": 1, "key": 5},
            {"payload": 1, "group": ""},
            {"payload": 1, "group": "\0"},
            {"payload": 1, "id": ""},
            {"payload": 1, "id": "a b"},
            {"payload": 1, "id": "i" * 129},
            {"payload": 1, "backoff_ms": 5},
            {"payload": 1, "backoff_ms": [-1]},
            {"payload": 1, "backoff_ms": ["1"]},
            {"payload": 1, "backoff_ms": {}},
            {"payload": 1, "backoff_ms": {"kind": "cubic"}},
            {"payload": 1, "backoff_ms": {"kind": "exponential", "base_ms": 1, "factor": 0.5}},
            {"payload": 1, "backoff_ms": {"kind": "linear", "step_ms": 1, "more": 1}},
            {"payload": 1, "keys_if_undelivered": "a"},
            {"payload": 1, "keys_if_undelivered": [""]},
            {"payload": 1, "keys_if_undelivered": [[]]},
            {"payload": 1, "keys_if_undelivered": [["a\0"]]},
            {"payload": 1, "keys_if_undelivered": [[1.5]]},
            {"payload": 1, "keys_if_undelivered": [[1 << 53]]},
            {"payload": 1, "keys_if_undelivered": [["a"] * 21]},
            {"payload": 1, "keys_if_undelivered": [["a"]] * 1001},
        ],
        ids=lambda body: json.dumps(body)[:60],
    )
    def test_what_is_no_message_is_refused(self, server: Server, body: Any) -> None:
        assert ask(server, "POST", SEND, body).problem == INVALID
        assert sent_nothing(server)

    @pytest.mark.parametrize("text", [rb"\ud800", rb"a\ud800b", rb"\uDBFFx"])
    def test_half_a_character_is_called_that(self, server: Server, text: bytes) -> None:
        told = ask(server, "POST", SEND, b'{"payload":"%s"}' % text)
        assert told.status == 400 and "is half of a surrogate pair" in told.json["error"]
        assert sent_nothing(server)

    def test_one_bad_message_among_several_is_named_and_nothing_is_sent(self, server: Server) -> None:
        refused = ask(server, "POST", SEND, {"messages": [{"payload": 1}, {"payload": 2, "id": "a b"}]})
        assert refused.problem == INVALID
        assert "position 1" in refused.json["error"]
        assert sent_nothing(server)

    def test_a_name_that_comes_twice_is_refused(self, server: Server) -> None:
        refused = ask(server, "POST", SEND, b'{"payload":1,"payload":2}')
        assert refused.problem == INVALID and "the body names the field `payload` twice" in refused.json["error"]
        assert sent_nothing(server)

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            (RECEIVE, {"max": 0}),
            (RECEIVE, {"max": 1001}),
            (RECEIVE, {"max": "1"}),
            (RECEIVE, {"wait_ms": -1}),
            (RECEIVE, {"wait_ms": 60_001}),
            (RECEIVE, {"lease_ms": 0}),
            (RECEIVE, {"consumer": 5}),
            (RECEIVE, {"consumer": ["c"]}),
            (RECEIVE, {"delivery": "maybe_once"}),
            (RECEIVE, {"limit": 5}),
            (ACK, {}),
            (ACK, {"receipts": []}),
            (ACK, {"receipts": "a"}),
            (ACK, {"receipts": [1]}),
            (ACK, {"receipts": [None]}),
            (ACK, {"receipts": ["a"] * 10_001}),
            (ACK, {"receipts": ["a"], "reason": "none"}),
            ("/v1/nack", {"receipts": ["a"], "delay_ms": -1}),
            ("/v1/nack", {"receipts": ["a"], "counts": "no"}),
            ("/v1/nack", {"receipts": ["a"], "reason": 5}),
            ("/v1/reject", {"receipts": ["a"], "delay_ms": 1}),
            ("/v1/reschedule", {"receipts": ["a"]}),
            ("/v1/reschedule", {"receipts": ["a"], "delay_ms": None}),
            ("/v1/extend", {"receipts": ["a"], "lease_ms": 0}),
        ],
    )
    def test_other_verbs_check_theirs(self, server: Server, path: str, body: Any) -> None:
        assert ask(server, "POST", path, body).problem == INVALID

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("PUT", "/v1/queues/q", {"lease_ms": 0}),
            ("PUT", "/v1/queues/q", {"colour": "red"}),
            ("PUT", "/v1/queues/q", {"on_expire": "explode"}),
            ("PUT", "/v1/queues/q", {"schema": {"type": "nonsense"}}),
            ("PUT", "/v1/queues/q", {"schema": {"$ref": "http://example.com/schema"}}),
            ("PUT", "/v1/queues/q", {"schema": [1]}),
            ("PUT", "/v1/queues/q", {"max_depth": 1 << 60}),
            ("PUT", "/v1/queues/q", []),
            ("PUT", "/v1/queues/q", b'{"lease_ms":1'),
            ("POST", "/v1/queues/q/dead/redrive", {"ids": "a"}),
            ("POST", "/v1/queues/q/dead/redrive", {"ids": ["a\0"]}),
            ("POST", "/v1/queues/q/dead/redrive", {"rate": 0}),
            ("POST", "/v1/queues/q/dead/redrive", {"limit": -1}),
            ("POST", "/v1/queues/q/dead/redrive", {"reason": "\ud800"}),
            ("POST", "/v1/queues/q/dead/redrive", {"died_after": 1 << 62}),
            ("POST", "/v1/api-keys", {"name": "a b", "scopes": ["send"]}),
            ("POST", "/v1/api-keys", {"name": "a", "scopes": []}),
            ("POST", "/v1/api-keys", {"name": "a", "scopes": ["fly"]}),
            ("POST", "/v1/api-keys", {"name": "a", "scopes": ["send"], "queues": []}),
            ("POST", "/v1/api-keys", {"name": "a", "scopes": ["send"], "queues": ["a b"]}),
            ("POST", "/v1/api-keys", {"name": "a", "scopes": ["send"], "queues": ["a.dlq"]}),
            ("POST", "/v1/api-keys", {"scopes": ["send"]}),
            ("POST", "/v1/api-keys", b""),
        ],
    )
    def test_operators_bodies_are_checked(self, server: Server, method: str, path: str, body: Any) -> None:
        assert ask(server, method, path, body).problem == INVALID

    @pytest.mark.parametrize("kind", ["application/json", "", "application/x-www-form-urlencoded", "text/plain"])
    def test_a_body_is_read_as_json_whatever_it_is_called(self, server: Server, kind: str) -> None:
        """`curl -d` calls everything a form. What pages of other sites post is told by its Origin."""
        assert ask(server, "PUT", "/v1/queues/named", {"lease_ms": 1}, headers={"content-type": kind}).status == 200
        assert ask(server, "POST", "/v1/queues/named/messages", {"payload": 1}, headers={"content-type": kind}).status == 201
        foreign = {"content-type": kind, "origin": "https://example.com"}
        assert ask(server, "POST", "/v1/queues/named/messages", {"payload": 1}, headers=foreign).problem == (403, "forbidden")


class TestLargeAndSlowBodies:
    @pytest.mark.parametrize("path", [SEND, RECEIVE, ACK, "/v1/queues/q/dead/redrive"])
    def test_a_body_that_is_too_large_is_refused(self, server: Server, path: str) -> None:
        body = b'{"payload":"' + b"x" * MAX_BODY + b'"}'
        assert ask(server, "POST", path, body).problem == (413, "body_too_large")

    @pytest.mark.parametrize("path", [SEND, "/v1/queues/q/dead/redrive"])
    def test_a_body_in_pieces_is_not_read_beyond_the_limit(self, server: Server, path: str) -> None:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
            connection.sendall(request("POST", path, "Content-Type: application/json", "Transfer-Encoding: chunked"))
            piece = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
            for _ in range(MAX_BODY // 0x1000 + 2):
                connection.sendall(piece)
            assert read_answer(connection).problem == (413, "body_too_large")

    def test_a_body_of_exactly_the_limit_is_read(self, server: Server) -> None:
        body = b'{"payload":"' + b"x" * (MAX_BODY - 14) + b'"}'
        assert len(body) == MAX_BODY
        assert ask(server, "POST", "/v1/queues/large/messages", body).status == 201

    def test_a_payload_larger_than_its_queue_takes_is_refused(self, server: Server) -> None:
        assert ask(server, "PUT", "/v1/queues/small", {"max_payload_bytes": 10}).status == 200
        assert ask(server, "POST", "/v1/queues/small/messages", {"payload": "x" * 20}).problem == (413, "payload_too_large")

    @pytest.mark.parametrize("path", [SEND, RECEIVE, ACK, "/v1/queues/q/dead/redrive"])
    @pytest.mark.parametrize("start", [b"", b'{"payload":'])
    def test_a_body_that_does_not_arrive_is_given_up(self, impatient: Server, path: str, start: bytes) -> None:
        late = ask_raw(impatient, request("POST", path, "Content-Type: application/json", "Content-Length: 50", body=start))
        assert late.problem == (408, "timeout")
        assert late.headers["connection"] == "close"
        assert sent_nothing(impatient)
        eventually(lambda: impatient.connections == 0)

    def test_a_client_that_leaves_in_the_middle_of_its_body_sends_nothing(self, server: Server) -> None:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
            connection.sendall(request("POST", SEND, "Content-Length: 50", body=b'{"payload":1}'))
        eventually(lambda: server.connections == 0)
        assert sent_nothing(server)


class TestPaths:
    @pytest.mark.parametrize(
        "name",
        ["%20", "a%20b", "a%00", "%C3%A4", "%F0%9F%90%87", "q%3F", "q%23", "a" * 65, "a*", "%25", "a%0Ab", "a;b", "a:b", "'", "a%5C"],
    )
    @pytest.mark.parametrize(
        ("method", "rest"),
        [("POST", "/messages"), ("POST", "/deliveries"), ("GET", "/deliveries"), ("GET", ""), ("PUT", ""), ("GET", "/dead")],
    )
    def test_what_is_no_name_of_a_queue_is_refused(self, server: Server, name: str, method: str, rest: str) -> None:
        body = {"payload": 1} if rest == "/messages" else {} if method != "GET" else None
        assert ask(server, method, f"/v1/queues/{name}{rest}", body).problem == INVALID

    @pytest.mark.parametrize("path", ["/v1/queues/a%2Fb/messages", "/v1/queues/%2F/messages", "/v1/queues/a/b/messages"])
    @pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
    def test_a_slash_is_no_part_of_a_name(self, server: Server, path: str, method: str) -> None:
        body = {"payload": 1} if method == "POST" else None
        assert ask(server, method, path, body).problem == (404, "not_found")

    @pytest.mark.parametrize("rest", ["/messages", "/deliveries"])
    def test_a_name_has_at_least_one_character(self, server: Server, rest: str) -> None:
        assert ask(server, "POST", f"/v1/queues/{rest}", {"payload": 1}).problem == INVALID
        assert ask(server, "GET", f"/v1/queues/{rest}").problem == (404, "not_found")

    @pytest.mark.parametrize("name", ["q.dlq", "q-dlq", ".dlq"])
    def test_nobody_sends_to_dead_letters(self, server: Server, name: str) -> None:
        assert ask(server, "POST", f"/v1/queues/{name}/messages", {"payload": 1}).problem == (400, "name_reserved")

    def test_names_of_all_allowed_characters_work_at_their_longest(self, server: Server) -> None:
        name = ("AZaz09._-" * 8)[:64]
        assert ask(server, "POST", f"/v1/queues/{name}/messages", {"payload": 1}).status == 201
        assert ask(server, "GET", f"/v1/queues/{name}/stats").json["ready"] == 1

    @pytest.mark.parametrize(
        "path", ["/", "/v1", "/v1/", "/v2/queues", "/v1/queues/", "/v1/nothing", "/v1/ack/", "/docs/", "//", "/v1/queues/q/"]
    )
    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_there_is_nothing_elsewhere(self, server: Server, path: str, method: str) -> None:
        assert ask(server, method, path).problem == (404, "not_found")

    @pytest.mark.parametrize(
        ("method", "path", "allowed"),
        [
            ("GET", ACK, "POST"),
            ("PUT", SEND, "DELETE, GET, HEAD, POST"),
            ("DELETE", RECEIVE, "GET, POST"),
            ("HEAD", RECEIVE, "GET, POST"),
            ("POST", "/v1/queues", "GET, HEAD"),
            ("POST", "/v1/queues/q", "DELETE, GET, HEAD, PUT"),
            ("PATCH", "/v1/queues/q", "DELETE, GET, HEAD, PUT"),
            ("OPTIONS", "/v1/queues/q", "DELETE, GET, HEAD, PUT"),
            ("TRACE", "/docs", "GET, HEAD"),
            ("POST", "/healthcheck", "GET, HEAD"),
            ("GET", "/v1/queues/q/pause", "DELETE, POST"),
        ],
    )
    def test_a_wrong_method_is_told_the_right_ones(self, server: Server, method: str, path: str, allowed: str) -> None:
        refused = ask(server, method, path)
        assert (refused.status, refused.headers["allow"]) == (405, allowed)
        if method != "HEAD":
            assert refused.problem == (405, "method_not_allowed")

    @pytest.mark.parametrize(
        "id", ["nobody", "0", "%20", "a%20b", "%C3%A4", "x" * 500, "019b76da-a800-7000-8000-00000000002a", "%27%20OR%201=1--"]
    )
    @pytest.mark.parametrize(("method", "rest"), [("GET", ""), ("DELETE", ""), ("GET", "/audit")])
    def test_an_id_that_is_none_is_not_found(self, server: Server, id: str, method: str, rest: str) -> None:
        answer = ask(server, method, f"/v1/messages/{id}{rest}")
        if rest == "/audit" and answer.status == 200:
            assert answer.json == {"events": []}
        else:
            assert answer.problem == (404, "message_not_found")

    def test_an_id_with_a_nul_is_refused(self, server: Server) -> None:
        assert ask(server, "GET", "/v1/messages/a%00").problem == INVALID

    def test_a_path_that_is_no_utf_8_is_refused_politely(self, server: Server) -> None:
        assert ask(server, "GET", "/v1/messages/%FF%FE").status in (400, 404)


class TestReceipts:
    @pytest.mark.parametrize(
        "receipt",
        [
            "",
            "garbage",
            "\0",
            "ä",
            "019b76da-a800-7000-8000-00000000002a",
            "019b76da-a800-7000-8000-00000000002a.ffffffffffffffff",
            "x" * 10_000,
        ],
        ids=lambda receipt: repr(receipt[:20]),
    )
    @pytest.mark.parametrize("verb", ["ack", "nack", "reject", "extend"])
    def test_a_receipt_that_never_was_one_settles_nothing(self, server: Server, verb: str, receipt: str) -> None:
        answer = ask(server, "POST", f"/v1/{verb}", {"receipts": [receipt]})
        assert answer.status == 200
        assert answer.json == {"results": [{"receipt": receipt, "outcome": "not_found"}]}

    def test_a_bad_receipt_does_not_hold_up_a_good_one(self, server: Server) -> None:
        assert ask(server, "POST", "/v1/queues/mixed/messages", {"payload": 1}).status == 201
        (delivery,) = ask(server, "POST", "/v1/queues/mixed/deliveries").json["deliveries"]
        results = ask(server, "POST", ACK, {"receipts": ["garbage", delivery["receipt"], delivery["receipt"]]}).json["results"]
        assert [result["outcome"] for result in results][:2] == ["not_found", "done"]

    def test_half_of_a_pair_of_surrogates_is_refused_in_a_receipt_and_replaced_in_a_reason(self, server: Server) -> None:
        assert ask(server, "POST", ACK, b'{"receipts":["\\ud800"]}').problem == INVALID
        assert ask(server, "POST", "/v1/nack", {"receipts": ["a"], "reason": "a\0b"}).status == 200


class TestQueries:
    @pytest.mark.parametrize(
        "query",
        [
            "limit=0",
            "limit=1001",
            "limit=many",
            "limit=1&limit=2",
            "limit=",
            "limit=1.5",
            "limit=0x10",
            "limit=true",
            "state=gone",
            "state=ready&state=dead",
            "after=garbage",
            "after=WyJyZWFkeSIsMSwxXQ%3D%3D%00",
            "key=%00",
            "text=%FF",
            "unknown=1",
            "%ED%A0%80=1",
            "key",
            "&".join(f"a{number}=1" for number in range(101)),
        ],
        ids=lambda query: query[:30],
    )
    def test_a_query_is_checked(self, server: Server, query: str) -> None:
        assert ask(server, "PUT", "/v1/queues/empty", {}).status == 200
        answer = ask(server, "GET", f"/v1/queues/empty/messages?{query}")
        if query == "key":
            assert answer.json == {"messages": [], "next": None}
        else:
            assert answer.problem == INVALID

    @pytest.mark.parametrize(
        "target",
        [
            "/v1/queues?x=1",
            "/healthcheck?x=1",
            "/v1/actions?limit=0",
            "/v1/actions?queue=a%20b",
            "/v1/messages?queue=a%20b",
            "/v1/messages?state=gone",
            "/v1/keys?prefix=%00",
            "/v1/keys/watch?prefix=%00",
            "/v1/keys/watch?prefix=[%22%22]",
            "/v1/keys/watch?ping_ms=1",
            "/v1/queues/q/deliveries?in_flight=0",
            "/v1/queues/q/deliveries?in_flight=1001",
            "/v1/queues/q/deliveries?lease_ms=0",
            "/v1/queues/q/deliveries?delivery=maybe",
        ],
    )
    def test_every_route_checks_its_own(self, server: Server, target: str) -> None:
        assert ask(server, "GET", target).problem == INVALID

    @pytest.mark.parametrize("query", ["", "key=", "key=[]", "key=%00", "key=a&key=b"])
    def test_a_key_to_forget_is_checked(self, server: Server, query: str) -> None:
        assert ask(server, "DELETE", f"/v1/keys?{query}").problem == INVALID

    def test_a_key_that_is_not_kept_is_not_found(self, server: Server) -> None:
        assert ask(server, "DELETE", "/v1/keys?key=nothing").problem == (404, "not_found")

    def test_bytes_that_are_no_ascii_in_a_query_are_refused(self, server: Server) -> None:
        answer = ask_raw(server, b"GET /v1/queues/q/messages?key=\xff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer.status == 400


class TestIdempotencyKeys:
    @pytest.mark.parametrize("name", ["", "k" * 256, "ä", "a\tb"], ids=["empty", "long", "no ASCII", "tab"])
    def test_a_malformed_one_is_refused(self, server: Server, name: str) -> None:
        body = b'{"payload":1}'
        lines = (f"Idempotency-Key: {name}", f"Content-Length: {len(body)}", "Connection: close")
        assert ask_raw(server, request("POST", SEND, *lines, body=body)).problem == INVALID
        assert sent_nothing(server)

    def test_the_longest_one_works_and_a_retry_gets_the_first_answer(self, server: Server) -> None:
        headers = {"idempotency-key": "k" * 255}
        first = ask(server, "POST", "/v1/queues/once/messages", {"payload": 1}, headers=headers)
        again = ask(server, "POST", "/v1/queues/once/messages", {"payload": 1}, headers=headers)
        assert (first.status, again.status) == (201, 201)
        assert first.json == again.json
        assert ask(server, "GET", "/v1/queues/once/stats").json["ready"] == 1

    def test_one_that_comes_with_another_message_is_refused(self, server: Server) -> None:
        headers = {"idempotency-key": "conflict"}
        assert ask(server, "POST", "/v1/queues/other/messages", {"payload": 1}, headers=headers).status == 201
        assert ask(server, "POST", "/v1/queues/other/messages", {"payload": 2}, headers=headers).problem == (409, "request_conflict")
        assert ask(server, "GET", "/v1/queues/other/stats").json["ready"] == 1


class TestRawSockets:
    @pytest.mark.parametrize(
        "data",
        [
            b"nonsense\r\n\r\n",
            b"GET\r\n\r\n",
            b"BREW /v1/queues HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET /v1/queues HTTP/9.9\r\nHost: localhost\r\n\r\n",
            b"GET /v1/queues HTTP/1.1\r\nHost localhost\r\n\r\n",
            b"POST /v1/ack HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            b"POST /v1/ack HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
            b"POST /v1/ack HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
            b"POST /v1/ack HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"\x00" * 100,
        ],
        ids=lambda data: repr(data[:40]),
    )
    def test_what_is_no_http_is_refused_and_hung_up_on(self, server: Server, data: bytes) -> None:
        head, _, body = heard(server, data).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ") and b"connection: close" in head
        assert json.loads(body)["code"] == "invalid_argument"

    def test_empty_lines_are_no_request(self, server: Server) -> None:
        lines, sound = b"\r\n\r\n\r\n", request("GET", "/healthcheck", "Connection: close")
        assert heard(server, lines, is_last=True) == b""
        assert heard(server, lines + sound).startswith(b"HTTP/1.1 204 ")

    def test_a_request_that_names_no_host_or_another_one_is_refused_without_keys(self, server: Server) -> None:
        assert ask_raw(server, b"GET /v1/queues HTTP/1.0\r\n\r\n").problem == (403, "forbidden")
        assert ask(server, "GET", "/v1/queues", headers={"host": "queue.example.com"}).problem == (403, "forbidden")
        assert ask(server, "GET", "/v1/queues", headers={"origin": "https://example.com"}).problem == (403, "forbidden")

    def test_requests_in_a_row_are_answered_in_their_order(self, server: Server) -> None:
        body = b'{"payload":'
        broken = request("POST", SEND, f"Content-Length: {len(body)}", body=body)
        sound = request("GET", "/healthcheck", "Connection: close")
        answers = heard(server, broken + sound)
        assert answers.startswith(b"HTTP/1.1 400 ") and b"HTTP/1.1 204 " in answers


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """To its authentication every guess comes a minute after the one before, so that no test is locked out."""
    with serving(tmp_path_factory.mktemp("keyed")) as server:
        server.service.authenticator = Authenticator(
            [key("admin", "admin")], server.engine.insights.known_keys, monotonic=count(0, 60.0).__next__
        )
        yield server


class TestKeys:
    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"authorization": "Bearer"},
            {"authorization": "Digest x"},
            {"authorization": "rowq_admin"},
            {"x-api-key": ""},
            {"x-api-key": "rowq_wrong"},
            {"authorization": "Bearer rowq_wrong"},
            {"authorization": "Basic !!!"},
            {"authorization": "Basic d3Jvbmc6cm93cV9hZG1pbg=="},
        ],
        ids=str,
    )
    @pytest.mark.parametrize(("method", "path"), [("POST", SEND), ("GET", "/v1/queues")])
    def test_who_shows_no_key_that_is_known_is_refused(self, keyed: Server, headers: dict[str, str], method: str, path: str) -> None:
        refused = ask(keyed, method, path, {"payload": 1} if method == "POST" else None, headers=headers)
        assert refused.problem == (401, "unauthorized")
        assert "Bearer" in refused.headers["www-authenticate"]
        assert ask(keyed, "GET", "/v1/queues", secret=ADMIN).json == {"queues": []}

    def test_who_guesses_is_not_listened_to_for_a_while(self, tmp_path: Path) -> None:
        with serving(tmp_path, key("admin", "admin")) as server:
            for _ in range(FAILURES):
                assert ask(server, "GET", "/v1/queues", secret="rowq_guess").problem == (401, "unauthorized")
            refused = ask(server, "GET", "/v1/queues", secret=ADMIN)
            assert refused.problem == (429, "too_many_failures")
            assert int(refused.headers["retry-after"]) > 0
            assert ask(server, "GET", "/healthcheck").status == 204

    def test_a_token_opens_only_what_is_read(self, keyed: Server) -> None:
        token = ask(keyed, "POST", "/v1/tokens", secret=ADMIN).json["token"]
        assert ask(keyed, "GET", f"/v1/queues?token={token}").status == 200
        assert ask(keyed, "POST", f"{SEND}?token={token}", {"payload": 1}).problem == (401, "unauthorized")
        assert ask(keyed, "GET", "/v1/queues?token=forged").problem == (401, "unauthorized")
