"""Whatever comes in is bounded: in bytes, in number, in depth and in time. What other suites hold is named in docs/security.md."""

from __future__ import annotations

import gzip
import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import rowq
from rowq.model.cron import read_cron
from rowq.model.draft import MAX_SEND
from rowq.model.fingerprint import LOOKED_AT
from rowq.model.retry import MAX_DELAYS
from rowq.server.auth.lockout import FAILURES
from rowq.server.logs import redact
from rowq.server.service import Limits
from tests.admin.conftest import with_pages
from tests.admin.visiting import Visitor
from tests.security.patterns import LONG, SECONDS, patterns, slowest
from tests.server.support import ask, ask_raw, read_answer, request, serving
from tests.support.server import Server
from tests.support.serving import Served

PATTERNS = patterns()
SEND = "/v1/queues/q/messages"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("limits")) as server:
        yield server


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """For bodies that come too slowly. A busy machine may delay any other body for as long."""
    with serving(tmp_path_factory.mktemp("impatient"), limits=Limits(body_timeout=0.3)) as server:
        yield server


class TestNumbers:
    @pytest.mark.parametrize("count", [100, 5_000])
    def test_many_headers_are_large_headers(self, server: Server, count: int) -> None:
        answer = ask_raw(server, request("GET", "/healthcheck", *(f"x-{number}: 1" for number in range(count))))
        assert answer.status == (204 if count == 100 else 431)

    def test_a_long_path_and_a_long_query_are_large_headers(self, server: Server) -> None:
        for target in ("/" + "a" * 40_000, "/v1/queues?" + "a" * 40_000):
            assert ask_raw(server, request("GET", target)).problem == (431, "headers_too_large")

    def test_a_query_has_a_hundred_fields_at_most(self, server: Server) -> None:
        assert ask(server, "GET", "/v1/queues?" + "&".join(["token=x"] * 101)).problem == (400, "invalid_argument")

    def test_a_batch_is_bounded(self, server: Server) -> None:
        body = b'{"messages":[' + b",".join([b'{"payload":1}'] * (MAX_SEND + 1)) + b"]}"
        assert ask(server, "POST", SEND, body).problem == (400, "invalid_argument")

    @pytest.mark.parametrize("form", [lambda many: many, lambda many: {"kind": "list", "delays_ms": many}])
    def test_a_backoff_has_so_many_delays_at_most(self, server: Server, form: object) -> None:
        """They are kept with the message or the queue, and no limit on payloads counts them."""
        assert callable(form)
        for method, path, status in (("POST", SEND, 201), ("PUT", "/v1/queues/q", 200)):
            rest = {"payload": 1} if path == SEND else {}
            assert ask(server, method, path, {**rest, "backoff_ms": form([0] * MAX_DELAYS)}).status == status
            refused = ask(server, method, path, {**rest, "backoff_ms": form([0] * (MAX_DELAYS + 1))})
            assert refused.problem == (400, "invalid_argument") and str(MAX_DELAYS) in refused.json["error"]

    def test_a_cursor_that_is_none_is_refused_however_long_it_is(self, server: Server) -> None:
        for cursor in ("A" * 30_000, "W1" * 10_000, "=" * 30_000):
            assert ask(server, "GET", f"{SEND}?after={cursor}").problem == (400, "invalid_argument")

    def test_a_form_has_so_many_fields_at_most(self, server: Server) -> None:
        visitor = Visitor(with_pages(server).url)
        visitor.get("/")
        assert visitor.post("/queue/q/pause", {"x": ["1"] * 12_001}).status == 400

    def test_many_cookies_are_read_quickly(self, server: Server) -> None:
        visitor = Visitor(with_pages(server).url)
        cookies = ";".join(["ForqSession=" + "x" * 42] * 500)
        began = time.process_time()
        assert visitor.get("/", cookie=cookies).status == 200
        assert time.process_time() - began < 10

    def test_nothing_is_unpacked(self, server: Server) -> None:
        """A few kilobytes cannot become a gigabyte here."""
        packed = gzip.compress(json.dumps({"payload": "x" * 1_000_000}).encode())
        for coding in ("gzip", "deflate", "br"):
            assert ask(server, "POST", SEND, packed, headers={"content-encoding": coding}).problem == (400, "invalid_argument")
        assert "content-encoding" not in ask(server, "GET", "/openapi.json", headers={"accept-encoding": "gzip, br"}).headers

    def test_a_schedule_is_refused_however_long_it_is(self) -> None:
        for text in ("* " * 50_000, ",".join(["1"] * 50_000) + " * * * x", "*/" * 50_000):
            began = time.thread_time()
            with pytest.raises(rowq.InvalidArgument):
                read_cron(text)
            assert time.thread_time() - began < 1


class TestTime:
    """Somebody who sends a byte now and then keeps nothing open for long. The deadline is that of the whole, not of each byte."""

    def trickle(self, server: Server, begin: bytes) -> int:
        """The status of the answer that comes although there is always one more byte."""
        with socket.create_connection(("127.0.0.1", server.port), timeout=0.05) as connection:
            connection.sendall(begin)
            until = time.monotonic() + 60
            while time.monotonic() < until:
                try:
                    if connection.recv(1, socket.MSG_PEEK):
                        connection.settimeout(20)
                        return read_answer(connection).status
                except TimeoutError:
                    connection.sendall(b" ")
        raise AssertionError("it was listened to for ever")

    def test_a_body_that_trickles_is_given_up(self, impatient: Server) -> None:
        assert self.trickle(impatient, request("POST", SEND, "Content-Length: 1000")) == 408
        assert self.trickle(impatient, request("PUT", "/v1/queues/q", "Content-Length: 1000")) == 408

    def test_headers_that_trickle_are_given_up(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from rowq.server.http.connection import make_protocol
        from tests.support import server as module

        short = make_protocol(http2=False, max_header_bytes=32_768, header_timeout=0.5, max_connections=100)
        monkeypatch.setattr(module, "_PROTOCOL", short)
        with serving(tmp_path) as server:
            assert self.trickle(server, b"GET /healthcheck HTTP/1.1\r\nHost: localhost\r\nX:") == 408

    def test_a_made_up_address_does_not_help_to_guess(self, tmp_path: Path) -> None:
        with closing(Served(tmp_path, "--json", "--no-admin", ROWQ_API_KEY="rowq_right")) as served:
            served.announced()
            addresses = [f"10.0.0.{number}" for number in range(FAILURES + 2)]
            lines = [{"X_Forwarded_For": address, "Forwarded": f"for={address}", "X_Real_IP": address} for address in addresses]
            statuses = [served.ask("GET", "/v1/queues", X_API_Key=f"rowq_{line['X_Real_IP']}", **line).status for line in lines]
        assert statuses == [401] * FAILURES + [429] * 2


class TestPatterns:
    def test_they_are_found(self) -> None:
        assert len(PATTERNS) > 30 and any(name.startswith("rowq.server.logs._SECRETS") for name in PATTERNS)

    @pytest.mark.parametrize("name", PATTERNS)
    def test_no_text_makes_one_take_for_ever(self, name: str) -> None:
        seconds, text = slowest(PATTERNS[name], LOOKED_AT if name.startswith("rowq.model.fingerprint.") else LONG)
        assert seconds < SECONDS, (PATTERNS[name].pattern, text)

    @pytest.mark.parametrize("pattern", [r"(a+)+$", r"\w+://"])
    def test_one_that_would_is_found_out(self, pattern: str) -> None:
        long = 22 if "(" in pattern else LONG
        assert slowest(re.compile(pattern), long)[0] > SECONDS

    def test_a_log_hides_secrets_in_a_long_line_as_quickly(self) -> None:
        """A stranger chooses the path that an access log tells of."""
        for piece in ("a", "/a", "a:", "authorization", "x-api-key ", "?token", "a://b:", "ForqSession=", "rowq_"):
            text = piece * (500_000 // len(piece))
            began = time.thread_time()
            redact(text)
            assert time.thread_time() - began < 2, piece

    def test_a_schema_with_a_bad_pattern_delays_no_other_call(self, server: Server) -> None:
        for pattern in ("^(a+)+$", "^(a|a)*$", r"^(a+)\1+b$"):
            assert ask(server, "PUT", "/v1/queues/p", {"schema": {"type": "string", "pattern": pattern}}).status == 200
            began = time.process_time()
            assert ask(server, "POST", "/v1/queues/p/messages", {"payload": "a" * 5_000 + "!"}).problem == (422, "payload_rejected")
            assert time.process_time() - began < 10
