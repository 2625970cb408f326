"""HTTP/2, here with prior knowledge: what real clients get, what they may do at once, and what they may not do too often."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes

from rowq.server.http.http2 import MAX_STREAMS, NUISANCES, STREAM_WINDOW
from tests.server.test_protocol import Served, get, loop, serving
from tests.support.patience import DEADLINE, eventually

__all__ = ["loop"]

MEGABYTES = bytes(range(256)) * 12_000
"""Three of them: far beyond what any window lets through at once."""


@dataclass
class Reply:
    headers: dict[str, str] = field(default_factory=dict)
    interim: list[str] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False
    reset: int | None = None

    @property
    def status(self) -> int:
        return int(self.headers[":status"])


class Client:
    """The h2 library as a client. It reads only while it waits for something."""

    def __init__(self, connected: socket.socket, *, greet: bool = True) -> None:
        self.socket = connected
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8", validate_outbound_headers=False))
        self.replies: dict[int, Reply] = {}
        self.goodbye: int | None = None
        self.is_closed = False
        self.gives_back = True
        if greet:
            self.h2.initiate_connection()
            self.flush()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def ask(self, path: str, body: bytes | None = None, *, method: str = "POST", end: bool = True, **headers: str) -> int:
        id = self.h2.get_next_available_stream_id()
        fields = [(":method", method), (":scheme", "http"), (":authority", "x"), (":path", path), *headers.items()]
        self.replies[id] = Reply()
        self.h2.send_headers(id, fields, end_stream=end and body is None)
        if body is not None:
            self.upload(id, body, end=end)
        self.flush()
        return id

    def upload(self, id: int, body: bytes, *, end: bool = True) -> None:
        """Sends as the window allows, and reads while it does not."""
        rest = memoryview(body)
        while rest:
            room = min(self.h2.local_flow_control_window(id), self.h2.max_outbound_frame_size, len(rest))
            if room:
                self.h2.send_data(id, rest[:room].tobytes())
                rest = rest[room:]
                self.flush()
            else:
                self.read()
        if end:
            self.h2.end_stream(id)
            self.flush()

    def read(self) -> None:
        data = self.socket.recv(65_536)
        if not data:
            self.is_closed = True
            raise EOFError
        for event in self.h2.receive_data(data):
            self.hear(event)
        self.flush()

    def hear(self, event: events.Event) -> None:
        match event:
            case events.InformationalResponseReceived():
                self.replies[event.stream_id].interim.append(dict(event.headers)[":status"])  # type: ignore[index, arg-type]
            case events.ResponseReceived():
                self.replies[event.stream_id].headers = dict(event.headers)  # type: ignore[arg-type]
            case events.DataReceived():
                self.replies[event.stream_id].body += event.data
                if self.gives_back:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case events.StreamEnded():
                self.replies[event.stream_id].ended = True
            case events.StreamReset():
                self.replies[event.stream_id].reset = int(event.error_code)
            case events.ConnectionTerminated():
                self.goodbye = int(event.error_code or 0)
                # The frame ends no stream that is open; h2 thinks it does.
                self.h2.state_machine.state = type(self.h2.state_machine.state).CLIENT_OPEN

    def until(self, condition: Callable[[], Any]) -> None:
        while not condition():
            self.read()

    def reply(self, id: int) -> Reply:
        reply = self.replies[id]
        self.until(lambda: reply.ended or reply.reset is not None)
        return reply

    def until_closed(self) -> int | None:
        with pytest.raises(EOFError):
            self.until(lambda: False)
        return self.goodbye

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def served(loop: str) -> Iterator[Served]:
    with serving(loop, http2=True) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    client = Client(served.connect())
    yield client
    client.close()


@pytest.fixture(scope="module")
def curl() -> list[str]:
    try:
        features = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        features = ""
    if "HTTP2" not in features:
        assert os.environ.get("CI") != "true", "CI needs a curl that speaks HTTP/2"
        pytest.skip("NOT TESTED with a real client: there is no curl here that speaks HTTP/2")
    return ["curl", "--silent", "--show-error", "--no-buffer", "--max-time", str(DEADLINE), "--http2-prior-knowledge"]


def test_curl_gets_what_it_sent(served: Served, curl: list[str]) -> None:
    url = f"http://127.0.0.1:{served.port}/echo/%C3%BC?a=b"
    written = subprocess.run([*curl, "-d", "hello", "-w", " %{http_version} %{http_code}", url], capture_output=True, check=True).stdout
    assert written == b"hello 2 200"
    scope = served.app.scopes[0]
    assert (scope["http_version"], scope["method"], scope["path"]) == ("2", "POST", "/echo/ü")
    assert (scope["raw_path"], scope["query_string"], scope["scheme"]) == (b"/echo/%C3%BC", b"a=b", "http")
    headers = dict(scope["headers"])
    assert headers[b"host"] == f"127.0.0.1:{served.port}".encode()
    assert headers[b"content-length"] == b"5"
    assert not any(name.startswith(b":") or name != name.lower() for name in headers)


def test_curl_sends_and_receives_megabytes(served: Served, curl: list[str], tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    sent.write_bytes(MEGABYTES)
    command = [*curl, "--data-binary", f"@{sent}", f"http://127.0.0.1:{served.port}/echo"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == MEGABYTES


def test_curl_sees_each_event_when_it_happens(served: Served, curl: list[str]) -> None:
    with subprocess.Popen([*curl, f"http://127.0.0.1:{served.port}/events"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        eventually(lambda: served.app.seen == ["events"])
        for number in range(3):
            served.app.open()
            assert process.stdout.readline() == b"data: %d\n" % number
            assert process.stdout.readline() == b"\n"
        assert process.stdout.read() == b""
    assert process.returncode == 0


def test_curl_that_is_answered_early_is_content(served: Served, curl: list[str], tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    sent.write_bytes(MEGABYTES)
    command = [*curl, "--data-binary", f"@{sent}", f"http://127.0.0.1:{served.port}/early"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"enough"


def test_both_protocols_live_on_one_port(served: Served, client: Client, curl: list[str]) -> None:
    url = f"http://127.0.0.1:{served.port}/echo"
    old = served.say(get())
    new = client.ask("/echo", b"new")
    assert old.answer().status == 200
    assert client.reply(new).body == b"new"
    offered = subprocess.run([*curl[:-1], "--http2", "-d", "x", "-w", " %{http_version}", url], capture_output=True, check=True).stdout
    assert offered == b"x 1.1"
    old.close()


def test_a_preface_that_comes_in_pieces_is_recognised(served: Served) -> None:
    client = Client(served.connect(), greet=False)
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.h2.initiate_connection()
    for byte in client.h2.data_to_send():
        client.socket.sendall(bytes([byte]))
    assert client.reply(client.ask("/echo", b"x")).body == b"x"
    client.close()
    almost = served.say(b"P", b"OST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok")
    assert almost.answer().body == b"ok"
    almost.close()


def test_streams_do_not_wait_for_each_other(served: Served, client: Client) -> None:
    slow = client.ask("/hold/slow", b"slow", end=False)
    quick = client.ask("/echo", b"quick")
    client.upload(slow, b" and steady")
    assert client.reply(quick).body == b"quick"
    assert not client.replies[slow].headers
    served.app.open("slow")
    assert client.reply(slow).body == b"slow and steady"


def test_bodies_larger_than_any_window_go_both_ways(client: Client) -> None:
    assert client.reply(client.ask("/echo", MEGABYTES)).body == MEGABYTES


def test_two_large_answers_share_the_connection(served: Served, client: Client) -> None:
    both = [client.ask(f"/hold/{name}", MEGABYTES[:200_000]) for name in "ab"]
    for name in "ab":
        served.app.open(name)
    client.until(lambda: any(client.replies[id].ended for id in both))
    assert all(len(client.replies[id].body) > 100_000 for id in both)
    assert [bytes(client.reply(id).body) for id in both] == [MEGABYTES[:200_000]] * 2


def test_a_body_that_nobody_reads_stops_at_the_window(served: Served, client: Client) -> None:
    stuck = client.ask("/hold/stuck", end=False)
    client.until(lambda: client.h2.local_flow_control_window(stuck) == STREAM_WINDOW)
    client.upload(stuck, MEGABYTES[:STREAM_WINDOW], end=False)
    assert client.reply(client.ask("/echo", b"others go on")).body == b"others go on"
    assert client.h2.local_flow_control_window(stuck) == 0
    served.app.open("stuck")
    client.upload(stuck, MEGABYTES[STREAM_WINDOW:])
    assert client.reply(stuck).body == MEGABYTES


def test_an_answer_that_nobody_reads_waits(served: Served, client: Client) -> None:
    client.gives_back = False
    id = client.ask("/echo", MEGABYTES)
    client.until(lambda: len(client.replies[id].body) == 65_535)
    client.h2.increment_flow_control_window(2**30)
    client.h2.increment_flow_control_window(2**30, id)
    client.flush()
    assert client.reply(id).body == MEGABYTES


def test_bodies_of_streams_that_were_reset_are_given_back(served: Served, client: Client) -> None:
    for number in range(8):
        id = client.ask(f"/hold/{number}", end=False)
        client.until(lambda id=id: client.h2.local_flow_control_window(id) == STREAM_WINDOW)  # type: ignore[misc]
        client.upload(id, MEGABYTES[:STREAM_WINDOW], end=False)
        client.h2.reset_stream(id, ErrorCodes.CANCEL)
        client.flush()
    assert client.reply(client.ask("/echo", MEGABYTES)).body == MEGABYTES
    for number in range(8):
        served.app.open(str(number))


def test_a_reset_tells_the_application_that_the_client_left(served: Served, client: Client) -> None:
    id = client.ask("/watch/a", b"half of it", end=False)
    eventually(lambda: served.app.seen == ["watch a"])
    client.h2.reset_stream(id, ErrorCodes.CANCEL)
    client.flush()
    eventually(lambda: served.app.seen == ["watch a", "gone a"])
    assert client.reply(client.ask("/echo", b"others go on")).body == b"others go on"


def test_a_lost_connection_tells_every_stream(served: Served, client: Client) -> None:
    for name in "ab":
        client.ask(f"/watch/{name}", method="GET")
    eventually(lambda: len(served.app.seen) == 2)
    client.close()
    eventually(lambda: sorted(served.app.seen[2:]) == ["gone a", "gone b"])
    eventually(lambda: not served.server.server_state.connections and not served.server.server_state.tasks)


def test_events_arrive_one_by_one(served: Served, client: Client) -> None:
    id = client.ask("/events", method="GET")
    client.until(lambda: client.replies[id].headers)
    assert client.replies[id].headers["content-type"] == "text/event-stream"
    for number in range(3):
        served.app.open()
        client.until(lambda number=number: client.replies[id].body.endswith(b"data: %d\n\n" % number))  # type: ignore[misc]
    assert client.reply(id).reset is None


def test_a_stop_finishes_what_is_open_and_refuses_what_is_new(served: Served, client: Client) -> None:
    idle = Client(served.connect())
    assert idle.reply(idle.ask("/echo", b"x")).ended
    id = client.ask("/hold/a", b"last")
    eventually(lambda: "hold a" in served.app.seen)
    served.server.should_exit = True
    client.until(lambda: client.goodbye is not None)
    assert client.reply(client.ask("/echo", b"new")).reset == ErrorCodes.REFUSED_STREAM
    served.app.open("a")
    assert client.reply(id).body == b"last"
    assert client.until_closed() == ErrorCodes.NO_ERROR
    assert idle.until_closed() == ErrorCodes.NO_ERROR
    for each in (client, idle):
        each.close()
    served.thread.join(DEADLINE)
    assert not served.thread.is_alive()
    assert served.app.seen == ["echo", "hold a"]


def test_a_client_that_says_goodbye_still_gets_its_answers(served: Served, client: Client) -> None:
    id = client.ask("/hold/a", b"x" * 100_000)
    eventually(lambda: served.app.seen == ["hold a"])
    client.h2.close_connection()
    client.h2.state_machine.state = type(client.h2.state_machine.state).CLIENT_OPEN
    client.flush()
    served.app.open("a")
    assert len(client.reply(id).body) == 100_000
    client.until_closed()


def test_a_stream_too_many_is_refused_and_the_others_are_served(served: Served, client: Client) -> None:
    ids = [client.ask(f"/hold/{number}", method="GET") for number in range(MAX_STREAMS)]
    refused = client.ask("/echo", method="GET")
    assert client.reply(refused).reset == ErrorCodes.REFUSED_STREAM
    for number in range(MAX_STREAMS):
        served.app.open(str(number))
    assert all(client.reply(id).status == 200 for id in ids)


def test_streams_that_are_opened_and_reset_without_end_end_the_connection(served: Served, client: Client) -> None:
    for _ in range(NUISANCES + 100):
        client.h2.reset_stream(client.ask("/watch", method="GET"), ErrorCodes.CANCEL)
    client.flush()
    assert client.until_closed() == ErrorCodes.ENHANCE_YOUR_CALM
    eventually(lambda: not served.server.server_state.tasks)
    other = Client(served.connect())
    assert other.reply(other.ask("/echo", b"others go on")).body == b"others go on"
    other.close()


@pytest.mark.parametrize("frame", ["ping", "settings", "empty data"])
def test_a_flood_of_frames_that_ask_for_nothing_ends_the_connection(client: Client, frame: str) -> None:
    id = client.ask("/watch", end=False)
    for _ in range(NUISANCES + 100):
        if frame == "ping":
            client.h2.ping(b"01234567")
        elif frame == "settings":
            client.h2.update_settings({})
        else:
            client.h2.send_data(id, b"")
    client.flush()
    assert client.until_closed() == ErrorCodes.ENHANCE_YOUR_CALM


def test_some_pings_are_answered(client: Client) -> None:
    client.h2.ping(b"01234567")
    assert client.reply(client.ask("/echo", b"x")).ended
    assert client.goodbye is None


def test_a_client_that_does_not_read_is_not_read_from(served: Served, client: Client) -> None:
    client.h2.increment_flow_control_window(2**30)
    ids = [client.ask(f"/hold/{name}", MEGABYTES[:200_000]) for name in "abcd"]
    for id in ids:
        client.h2.increment_flow_control_window(2**30, id)
    client.flush()
    eventually(lambda: len(served.app.seen) == 4)
    connection: Any = next(iter(served.server.server_state.connections))
    connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    for name in "abcd":
        served.app.open(name)
    eventually(lambda: connection.flow.read_paused)
    assert connection.transport.get_write_buffer_size() < 200_000
    assert all(len(client.reply(id).body) == 200_000 for id in ids)
    eventually(lambda: not connection.flow.read_paused)


def test_headers_over_the_limit_are_refused_and_far_over_it_end_the_connection(served: Served, client: Client) -> None:
    large = client.reply(client.ask("/echo", method="GET", long="a" * 3000))
    assert (large.status, json.loads(large.body)["code"]) == (431, "headers_too_large")
    assert client.reply(client.ask("/echo", b"x")).status == 200
    client.ask("/echo", method="GET", long="a" * 20_000)
    assert client.until_closed() == ErrorCodes.ENHANCE_YOUR_CALM
    assert served.app.seen == ["echo"]


@pytest.mark.parametrize("path", ["echo", "/a b", "/a#b", "/ü", "http://x/echo"])
def test_a_path_that_http1_could_not_carry_is_refused(served: Served, client: Client, path: str) -> None:
    reply = client.reply(client.ask(path, method="GET"))
    assert (reply.status, json.loads(reply.body)["code"]) == (400, "invalid_argument")
    assert served.app.seen == []


def test_connect_is_refused(served: Served, client: Client) -> None:
    id = client.h2.get_next_available_stream_id()
    client.replies[id] = Reply()
    client.h2.send_headers(id, [(":method", "CONNECT"), (":authority", "example.com:80")])
    client.flush()
    reply = client.reply(id)
    assert (reply.status, json.loads(reply.body)["code"]) == (400, "invalid_argument")
    assert served.app.seen == []
    assert client.reply(client.ask("/echo", b"others go on")).body == b"others go on"


def test_an_idle_connection_is_closed(loop: str) -> None:
    with serving(loop, http2=True, keep_alive=1) as served:
        idle, busy = (Client(served.connect()) for _ in range(2))
        held = busy.ask("/hold/a", method="GET")
        eventually(lambda: served.app.seen == ["hold a"])
        assert idle.reply(idle.ask("/echo", b"x")).ended
        served.protocol.header_timeout = 0.1
        silent = Client(served.connect())
        for client in (silent, idle):
            assert client.until_closed() == ErrorCodes.NO_ERROR
        served.app.open("a")
        assert busy.reply(held).status == 200
        for client in (silent, idle, busy):
            client.close()


def test_an_early_answer_stops_the_upload(served: Served, client: Client) -> None:
    id = client.ask("/early", b"beginning", end=False)
    reply = client.reply(id)
    assert reply.body == b"enough"
    client.until(lambda: reply.reset is not None)
    assert reply.reset == ErrorCodes.NO_ERROR
    assert client.reply(client.ask("/echo", MEGABYTES)).body == MEGABYTES


def test_head_has_headers_and_no_body(client: Client) -> None:
    reply = client.reply(client.ask("/early", method="HEAD"))
    assert (reply.status, reply.headers["content-length"], bytes(reply.body)) == (200, "6", b"")


def test_a_client_that_asks_first_is_told_to_go_on(client: Client) -> None:
    id = client.ask("/echo", end=False, expect="100-continue")
    client.until(lambda: client.replies[id].interim == ["100"])
    client.upload(id, b"body")
    assert client.reply(id).body == b"body"


@pytest.mark.filterwarnings("default")
def test_an_application_that_fails_costs_its_stream_only(client: Client) -> None:
    early, late = client.ask("/fail/early", method="GET"), client.ask("/fail/late", method="GET")
    assert client.reply(early).status == 500
    assert json.loads(client.reply(early).body)["code"] == "internal"
    assert client.reply(late).reset == ErrorCodes.INTERNAL_ERROR
    assert client.reply(client.ask("/echo", b"others go on")).body == b"others go on"


def test_frames_that_break_the_protocol_end_the_connection(served: Served, client: Client) -> None:
    client.ask("/watch", method="GET")
    eventually(lambda: served.app.seen == ["watch"])
    client.socket.sendall(b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00")
    assert client.until_closed() not in {None, ErrorCodes.NO_ERROR}
    eventually(lambda: served.app.seen == ["watch", "gone"])
