"""What no client of Forq should send, and who may ask for what: the right status, Forq's code, a sentence, and nothing lost."""

from __future__ import annotations

import base64
import http.client
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import text

from rowq import Broker
from rowq.server.auth.lockout import FAILURES
from rowq.server.compat.registry import open_apis
from rowq.server.service import Limits
from tests.server.support import Answer, ask, ask_raw, key, request, serving
from tests.support.life import depths
from tests.support.patience import eventually
from tests.support.server import Server

MESSAGES = "/api/v1/queues/emails/messages"
INVALID = (400, "bad_request.body.invalid")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    limits = Limits(max_body_bytes=100)
    with serving(tmp_path_factory.mktemp("forq"), limits=limits, compat=open_apis(("forq",), {})) as server:
        yield server


@pytest.fixture
def emails(server: Server) -> Iterator[Server]:
    """Whatever a test sends, nothing comes of it."""
    yield server
    assert depths(Broker(server.engine), "emails") == {}
    eventually(lambda: server.connections == 0)


def post(server: Server, body: Any) -> Answer:
    return ask(server, "POST", MESSAGES, body)


class TestBodies:
    @pytest.mark.parametrize(
        "body",
        [
            *(b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"\0", b'{"content": "a\xff"}', b'{"content": "x"} {}', b"[" * 100_000),
            *({}, {"content": None}, {"content": 1}, {"content": ["x"]}, {"content": {"a": 1}}, {"Content": "x"}),
            *({"content": "x", "processAfter": value} for value in ("1", 1.5, True, [0], {"at": 0})),
            rb'{"content": "\ud800"}',
            rb'{"content": "\udc00\ud800"}',
        ],
        ids=repr,
    )
    def test_what_is_no_message_is_refused(self, emails: Server, body: Any) -> None:
        assert post(emails, body).problem == INVALID

    def test_a_body_that_is_huge_is_not_read_to_its_end(self, emails: Server) -> None:
        assert post(emails, b'{"content": "' + b"a" * (3 << 20)).problem == (413, "bad_request.body.content.exceeds_limit")

    def test_the_limit_of_other_bodies_does_not_hold_here(self, server: Server) -> None:
        assert ask(server, "POST", "/api/v1/queues/large/messages", {"content": "a" * 1_000}).status == 204

    def test_what_is_unknown_in_a_body_is_passed_over(self, server: Server) -> None:
        assert ask(server, "POST", "/api/v1/queues/more/messages", {"content": "", "priority": 1}).status == 204
        assert ask(server, "GET", "/api/v1/queues/more/messages").json["content"] == ""

    @settings(max_examples=100, deadline=None)
    @given(content=text())
    def test_any_text_comes_back_as_it_was(self, server: Server, content: str) -> None:
        assert ask(server, "POST", "/api/v1/queues/texts/messages", {"content": content}).status == 204
        message = ask(server, "GET", "/api/v1/queues/texts/messages").json
        assert message["content"] == content
        assert ask(server, "POST", f"/api/v1/queues/texts/messages/{message['id']}/ack").status == 204

    def test_a_body_that_does_not_arrive_is_not_waited_for(self, tmp_path: Path) -> None:
        with serving(tmp_path, limits=Limits(body_timeout=0.2), compat=open_apis(("forq",), {})) as server:
            answer = ask_raw(server, request("POST", MESSAGES, "Content-Length: 100", body=b"{"))
            assert answer.problem == (408, "timeout")
            assert depths(Broker(server.engine), "emails") == {}


class TestPaths:
    @pytest.mark.parametrize("queue", ["a%20b", "%00", "a" * 65, "%C3%A9", "a%2Fb", "q%3F", "%ED%A0%80"])
    @pytest.mark.parametrize(("method", "rest"), [("POST", ""), ("GET", ""), ("POST", "/1/ack"), ("POST", "/1/nack")])
    def test_a_name_that_no_queue_can_have(self, emails: Server, queue: str, method: str, rest: str) -> None:
        answer = ask(emails, method, f"/api/v1/queues/{queue}/messages{rest}", {"content": "x"} if method == "POST" else None)
        assert answer.problem in ((400, "bad_request.queue.invalid_name"), (404, "not_found"))

    @pytest.mark.parametrize(("method", "path"), [("PUT", MESSAGES), ("DELETE", MESSAGES), ("GET", f"{MESSAGES}/1/ack")])
    def test_another_method(self, emails: Server, method: str, path: str) -> None:
        answer = ask(emails, method, path)
        assert answer.problem == (405, "method_not_allowed") and answer.headers["allow"]

    @pytest.mark.parametrize("id", ["%00", "a" * 5_000, "%FF", "é".encode().hex(), "-1", "..", "0199164b-4dea-7000-8000-7fffffffffff"])
    def test_an_id_that_no_message_can_have(self, emails: Server, id: str) -> None:
        assert ask(emails, "POST", f"{MESSAGES}/{id}/ack").status == 204
        assert ask(emails, "POST", f"{MESSAGES}/{id}/nack").problem == (404, "not_found.message")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = (
        key("all", "send", "receive"),
        key("metrics", "metrics"),
        key("sender", "send"),
        key("other", "send", "receive", queues=("other",)),
    )
    with serving(tmp_path_factory.mktemp("guarded"), *keys, compat=open_apis(("forq",), {})) as server:
        assert ask(server, "POST", MESSAGES, {"content": "x"}, secret="rowq_all").status == 204
        yield server


class TestAccess:
    def test_a_key_is_needed(self, guarded: Server) -> None:
        for secret in (None, "rowq_wrong"):
            answer = ask(guarded, "POST", MESSAGES, {"content": "x"}, secret=secret)
            assert answer.problem == (401, "unauthorized") and "www-authenticate" in answer.headers

    def test_c47_a_key_comes_in_any_of_three_headers(self, guarded: Server) -> None:
        basic = base64.b64encode(b"all:rowq_all").decode()
        for header in ({"x-api-key": "rowq_all"}, {"authorization": "Bearer rowq_all"}, {"authorization": f"Basic {basic}"}):
            assert ask(guarded, "POST", "/api/v1/queues/keys/messages", {"content": "x"}, headers=header).status == 204

    def test_too_many_wrong_keys_are_not_listened_to(self, tmp_path: Path) -> None:
        with serving(tmp_path, key("all", "send"), compat=open_apis(("forq",), {})) as server:
            answers = [ask(server, "POST", MESSAGES, {"content": "x"}, secret="wrong") for _ in range(FAILURES + 1)]
        assert answers[-1].problem == (429, "too_many_requests") and int(answers[-1].headers["retry-after"]) > 0

    def test_c42_the_depth_is_told_by_state(self, guarded: Server) -> None:
        for process_after in (0, guarded.engine.clock.now() + 60_000):
            body = {"content": "x", "processAfter": process_after}
            assert ask(guarded, "POST", "/api/v1/queues/deep/messages", body, secret="rowq_all").status == 204
        figures = ask(guarded, "GET", "/metrics", secret="rowq_metrics").body.decode()
        for state, count in {"ready": 1, "scheduled": 1, "leased": 0, "dead": 0}.items():
            assert f'rowq_messages{{queue="deep",state="{state}"}} {count}.0' in figures

    def test_a_key_of_another_scope_or_queue_does_nothing(self, guarded: Server) -> None:
        message = ask(guarded, "GET", MESSAGES, secret="rowq_all").json
        for secret in ("rowq_sender", "rowq_other"):
            for method, path in (
                ("GET", MESSAGES),
                ("POST", f"{MESSAGES}/{message['id']}/ack"),
                ("POST", f"{MESSAGES}/{message['id']}/nack"),
            ):
                assert ask(guarded, method, path, secret=secret).problem == (403, "forbidden")
        for queue in ("emails", "emails-dlq"):
            assert ask(guarded, "GET", f"/api/v1/queues/{queue}/messages", secret="rowq_other").status == 403
        path = f"/api/v1/queues/other/messages/{message['id']}"
        assert ask(guarded, "POST", f"{path}/ack", secret="rowq_other").status == 204
        assert ask(guarded, "POST", f"{path}/nack", secret="rowq_other").status == 404
        assert guarded.engine.insights.stats("emails").leased == 1


class TestOtherwise:
    def test_an_api_that_is_not_served_is_not_found(self, tmp_path: Path) -> None:
        with serving(tmp_path, compat=open_apis((), {})) as server:
            assert ask(server, "POST", MESSAGES, {"content": "x"}).status == 404
            assert ask(server, "GET", MESSAGES).status == 404

    def test_a_database_that_does_not_answer(self, tmp_path: Path) -> None:
        with serving(tmp_path, compat=open_apis(("forq",), {})) as server:
            server.engine.close()
            assert post(server, {"content": "x"}).problem == (503, "forq.unhealthy")
            assert ask(server, "GET", "/healthcheck").problem == (503, "forq.unhealthy")

    def test_a_stop_answers_whoever_waits(self, tmp_path: Path) -> None:
        with (
            serving(tmp_path, compat=open_apis(("forq",), {})) as server,
            closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)) as waiting,
        ):
            waiting.request("GET", MESSAGES)
            eventually(lambda: server.engine.waiting == 1)
            server.call(server.service.stop)
            assert waiting.getresponse().status == 204

    def test_whoever_leaves_takes_nothing_along(self, tmp_path: Path) -> None:
        with serving(tmp_path, compat=open_apis(("forq",), {})) as server:
            with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)) as waiting:
                waiting.request("GET", MESSAGES)
                eventually(lambda: server.engine.waiting == 1)
            eventually(lambda: server.engine.waiting == 0)
            assert post(server, {"content": "x"}).status == 204
            assert ask(server, "GET", MESSAGES).json["content"] == "x"
