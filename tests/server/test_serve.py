"""`rowq serve`: how it starts, whom it lets in, what it prints, and how it stops."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import psutil
import pytest

import rowq
from tests.admin.visiting import Visitor
from tests.server.command import Command
from tests.support.patience import eventually
from tests.support.serving import Served, answer_of

CERTIFICATE = Path(__file__).parents[1] / "support" / "localhost.pem"
"""Made for this test, with its key: it names localhost and is trusted by nobody."""

Serve = Callable[..., Served]
MESSAGES = "/v1/queues/jobs/messages"
DELIVERIES = "/v1/queues/jobs/deliveries"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server on a database of its own, and waits until it listens."""
    with _serving(tmp_path) as start:
        yield start


@contextmanager
def _serving(folder: Path) -> Iterator[Serve]:
    with ExitStack() as running:

        def start(*args: str, **environment: str) -> Served:
            served = Served(folder, "--json", *args, **environment)
            running.callback(served.close)
            served.announced()
            return served

        yield start


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server without keys, for all tests that leave it running."""
    with _serving(tmp_path_factory.mktemp("shared")) as start:
        yield start(ROWQ_DEFAULTS='{"max_attempts": 2}')


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server with a key, which others can reach."""
    with _serving(tmp_path_factory.mktemp("keyed")) as start:
        yield start("--host", "0.0.0.0", ROWQ_API_KEY="s3cret")  # noqa: S104


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server with a certificate and HTTP/2, and without pages."""
    with _serving(tmp_path_factory.mktemp("secured")) as start:
        yield start("--tls-cert", str(CERTIFICATE), "--http2", "--no-admin")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    return Command(monkeypatch, tmp_path)


def seldom(condition: Callable[[], bool]) -> Callable[[], bool]:
    """The condition, looked at more and more rarely: a client that tries a wrong key ten times in a minute is locked out."""
    pauses = iter((0.0, 0.5, 0.5, 1.0, 1.0, 2.0, 3.0, 5.0, 60.0))
    look_at = 0.0

    def look() -> bool:
        nonlocal look_at
        if time.monotonic() < look_at:
            return False
        if condition():
            return True
        look_at = time.monotonic() + next(pauses)
        return False

    return look


def test_it_serves_until_it_is_told_to_stop(serve: Serve) -> None:
    served = serve()
    assert served.ask("GET", "/healthcheck").status == 204
    id = served.ask("POST", MESSAGES, {"payload": {"n": 1}}).json["id"]
    [delivery] = served.ask("POST", DELIVERIES, {}).json["deliveries"]
    assert (delivery["id"], delivery["payload"]) == (id, {"n": 1})
    assert served.ask("POST", "/v1/ack", {"receipts": [delivery["receipt"]]}).json["results"][0]["outcome"] == "done"
    served.signal()
    assert served.ended() == 0
    assert "WARNING" not in served.log and "ERROR" not in served.log and "Traceback" not in served.log
    assert "rowq has stopped" in served.log


def test_ctrl_c_stops_it_as_well(serve: Serve) -> None:
    served = serve()
    served.signal(signal.SIGINT)
    assert served.ended() == 0


def test_answers_tell_nothing_of_the_software(shared: Served) -> None:
    headers = shared.ask("GET", "/healthcheck").headers
    assert "server" not in headers and "date" in headers


def test_people_are_shown_their_first_steps(command: Command) -> None:
    shown = command.said()[1]
    first, url = shown.splitlines()[0], "http://127.0.0.1:5"
    assert first == f"rowq {rowq.__version__} serves sqlite:///rowq.db at {url}"
    assert all(f"{url}/{path}" in shown for path in ("v1/queues/demo/messages", "v1/queues/demo/deliveries", "v1/ack", "docs"))
    assert "No key is needed" in shown and "X-API-Key" not in shown


def test_with_keys_the_first_steps_say_where_the_key_goes(command: Command) -> None:
    shown = command.said(ROWQ_API_KEY="s3cret")[1]
    assert shown.count('-H "X-API-Key: $ROWQ_API_KEY"') == 3
    assert "s3cret" not in shown


def test_it_serves_on_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    served = Served(tmp_path, "--no-admin")
    try:
        assert served.process.stdout is not None
        served.process.stdout.close()

        def listening() -> list[int]:
            connections = psutil.Process(served.process.pid).net_connections("tcp")
            return [connection.laddr.port for connection in connections if connection.status == psutil.CONN_LISTEN]

        (port,) = eventually(listening, within=60)
        served.url = f"http://127.0.0.1:{port}"
        assert served.ask("GET", "/healthcheck").status == 204
    finally:
        served.process.stdout = None
        served.close()


class TestKeys:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104
    def test_without_a_key_others_cannot_be_let_in(self, command: Command, host: str) -> None:
        assert "without a key the server only listens on this machine" in command.refused("--host", host)

    def test_with_a_key_others_are_let_in_who_have_it(self, keyed: Served) -> None:
        assert keyed.ask("GET", "/healthcheck").status == 204
        assert keyed.ask("GET", "/v1/queues").status == 401
        assert keyed.ask("GET", "/v1/queues", X_API_Key="wrong").status == 401
        assert keyed.ask("GET", "/v1/queues", X_API_Key="s3cret", Host="queue.example.com").status == 200

    def test_a_key_in_the_database_is_enough(self, serve: Serve, tmp_path: Path) -> None:
        with rowq.connect(f"sqlite:///{tmp_path / 'rowq.db'}") as broker:
            secret = broker.create_key("worker", scopes=["send"])
        served = serve("--host", "0.0.0.0")  # noqa: S104
        assert served.ask("POST", MESSAGES, {"payload": 1}, Authorization=f"Bearer {secret}").status == 201
        assert served.ask("POST", DELIVERIES, {}, Authorization=f"Bearer {secret}").status == 403

    def test_keys_come_and_go_while_it_runs(self, serve: Serve, tmp_path: Path) -> None:
        served = serve(ROWQ_API_KEY="s3cret")
        with rowq.connect(f"sqlite:///{tmp_path / 'rowq.db'}") as broker:
            secret = broker.create_key("worker", scopes=["receive"])
            eventually(seldom(lambda: served.ask("GET", "/v1/queues", X_API_Key=secret).status == 200))
            broker.revoke_key("worker")
            eventually(lambda: served.ask("GET", "/v1/queues", X_API_Key=secret).status == 401)
        assert served.ask("GET", "/v1/queues", X_API_Key="s3cret").status == 200

    def test_without_keys_a_page_of_another_site_is_refused(self, shared: Served) -> None:
        assert shared.ask("POST", MESSAGES, {"payload": 1}, Host="evil.example.com").status == 403
        assert shared.ask("POST", MESSAGES, {"payload": 1}, Origin="https://evil.example.com").status == 403

    def test_the_audit_tells_which_key_it_was(self, keyed: Served) -> None:
        id = keyed.ask("POST", MESSAGES, {"payload": 1}, X_API_Key="s3cret").json["id"]
        [event] = keyed.ask("GET", f"/v1/messages/{id}/audit", X_API_Key="s3cret").json["events"]
        assert (event["event"], event["actor"]) == ("enqueued", "key:env")

    def test_whoever_guesses_is_locked_out(self, serve: Serve) -> None:
        served = serve(ROWQ_API_KEY="s3cret")
        for _ in range(10):
            assert served.ask("GET", "/v1/queues", X_API_Key="wrong").status == 401
        locked = served.ask("GET", "/v1/queues", X_API_Key="s3cret")
        assert (locked.status, locked.json["code"]) == (429, "too_many_failures")
        assert 1 <= int(locked.headers["retry-after"]) <= 60


class TestStopping:
    def test_a_receive_that_waits_is_answered_with_nothing(self, serve: Serve) -> None:
        served = serve()
        with closing(served.connection()) as connection:
            connection.request("POST", DELIVERIES, b'{"wait_ms": 60000}', {"content-type": "application/json"})
            eventually(lambda: self.waiting(served) == 1)
            served.signal()
            answer = answer_of(connection)
        assert (answer.status, answer.json) == (200, {"deliveries": []})
        assert served.ended() == 0

    def test_an_event_stream_ends(self, serve: Serve) -> None:
        served = serve()
        with closing(served.connection()) as connection:
            connection.request("GET", DELIVERIES)
            response = connection.getresponse()
            assert response.status == 200
            served.signal()
            response.read()
        assert served.ended() == 0

    def test_a_request_that_has_begun_is_answered(self, serve: Serve) -> None:
        served = serve()
        body = b'{"payload": "' + b"x" * 100_000 + b'"}'
        with closing(served.connection()) as connection:
            connection.putrequest("POST", MESSAGES)
            connection.putheader("content-type", "application/json")
            connection.putheader("content-length", str(len(body)))
            connection.putheader("expect", "100-continue")
            connection.endheaders()
            assert connection.sock.recv(100).startswith(b"HTTP/1.1 100")
            connection.send(body[:1_000])
            served.signal()
            eventually(lambda: "is stopping" in served.log)
            connection.send(body[1_000:])
            assert answer_of(connection).status == 201
        assert served.ended() == 0

    def test_nobody_new_is_let_in(self, serve: Serve) -> None:
        served = serve()
        with closing(self.held_up(served)):
            served.signal()
            eventually(lambda: "is stopping" in served.log)
            eventually(lambda: self.is_shut(served))

    def test_a_second_signal_ends_it_at_once(self, serve: Serve) -> None:
        served = serve()
        with closing(self.held_up(served)):
            served.signal()
            eventually(lambda: "is stopping" in served.log)
            served.signal()
            assert served.ended() == 128 + signal.SIGTERM

    def test_whoever_takes_too_long_is_not_waited_for(self, serve: Serve) -> None:
        served = serve("--stop-timeout", "200ms")
        with closing(self.held_up(served)):
            served.signal()
            assert served.ended() == 0

    def held_up(self, served: Served) -> socket.socket:
        """A request whose body never comes."""
        parts = urlsplit(served.url)
        held = socket.create_connection((parts.hostname, parts.port), timeout=20)
        held.sendall(f"POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n".encode())
        assert held.recv(100).startswith(b"HTTP/1.1 100")
        return held

    def is_shut(self, served: Served) -> bool:
        try:
            served.ask("GET", "/healthcheck")
        except OSError:  # refused, or reset
            return True
        return False

    def waiting(self, served: Served) -> float:
        lines = served.ask("GET", "/metrics").body.decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith("rowq_waiting_consumers"))


class TestTls:
    def test_a_certificate_makes_it_https(self, secured: Served) -> None:
        assert secured.url.startswith("https://")
        assert secured.ask("GET", "/healthcheck").status == 204
        connection = secured.connection()
        connection.connect()
        with closing(connection):
            assert isinstance(connection.sock, ssl.SSLSocket)
            assert connection.sock.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(
                CERTIFICATE.read_text().partition("-----BEGIN PRIV")[0]
            )

    @pytest.mark.parametrize(("flag", "chosen"), [("--http2", "h2"), ("--no-http2", "http/1.1")])
    def test_the_protocol_is_agreed_on(self, serve: Serve, secured: Served, flag: str, chosen: str) -> None:
        served = secured if flag == "--http2" else serve("--tls-cert", str(CERTIFICATE), flag)
        parts = urlsplit(served.url)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2", "http/1.1"])
        with socket.create_connection((parts.hostname, parts.port), timeout=20) as plain, context.wrap_socket(plain) as agreed:
            assert agreed.selected_alpn_protocol() == chosen

    def test_a_handshake_that_never_comes_is_not_waited_for(self, serve: Serve) -> None:
        served = serve("--tls-cert", str(CERTIFICATE), "--header-timeout", "0.2")
        parts = urlsplit(served.url)
        with socket.create_connection((parts.hostname, parts.port), timeout=20) as silent:
            assert silent.recv(1) == b""

    def test_a_certificate_that_is_none_is_refused(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "no.pem").write_text("hello")
        assert "cannot be used" in command.refused("--tls-cert", "no.pem")


class TestMistakes:
    def test_a_process_that_refuses_says_so_and_ends(self, tmp_path: Path) -> None:
        with closing(Served(tmp_path, "--host", "0.0.0.0")) as served:  # noqa: S104
            assert served.ended(60) == 2, served.log
            assert served.process.stdout is not None and served.process.stdout.read() == b""
            assert "without a key" in served.log and "Traceback" not in served.log

    def test_a_port_that_is_taken_is_told(self, command: Command) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as taken:
            told = command.refused("--port", str(taken.getsockname()[1]))
        assert "it is already in use" in told

    def test_a_host_that_is_not_ours_is_told(self, command: Command) -> None:
        assert "not an address of this machine" in command.refused("--host", "192.0.2.1", ROWQ_API_KEY="s3cret")

    def test_several_processes_on_sqlite_are_refused(self, command: Command) -> None:
        assert "one process write at a time" in command.refused("--workers", "4")

    def test_a_mistake_in_the_file_is_told(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "rowq.toml").write_text("[server]\nprot = 1\n")
        assert "did you mean port?" in command.refused()

    def test_the_file_names_the_database_unless_somebody_else_does(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "rowq.toml").write_text('[server]\nurl = "sqlite:///of-file.db"\n')
        assert command.said()[0].url == "sqlite:///of-file.db"
        assert command.said(ROWQ_URL="sqlite:///of-variable.db")[0].url == "sqlite:///of-variable.db"
        assert command.said("--url", "sqlite:///of-flag.db", ROWQ_URL="sqlite:///nobody.db")[0].url == "sqlite:///of-flag.db"


def visitor_of(served: Served) -> Visitor:
    assert served.admin is not None
    return Visitor(served.admin)


class TestPages:
    def test_they_have_a_port_of_their_own(self, shared: Served) -> None:
        pages = visitor_of(shared)
        assert pages.get("/").status == 200 and pages.get("/v1/queues").status == 404
        assert shared.ask("GET", "/login").status == 404

    def test_they_know_where_the_api_is(self, shared: Served) -> None:
        shown = visitor_of(shared).get("/queue/emails/").words
        assert f"curl -X POST {shared.url}/v1/queues/emails/messages" in shown

    def test_they_can_be_left_out(self, secured: Served) -> None:
        assert secured.admin is None

    def test_a_session_survives_a_restart(self, serve: Serve) -> None:
        first = serve(ROWQ_API_KEY="s3cret")
        visitor = visitor_of(first)
        visitor.log_in("s3cret")
        assert visitor.post("/queue/emails/send", {"kind": "json", "payload": "1"}).status == 303
        first.signal()
        assert first.ended() == 0
        again = visitor_of(serve(ROWQ_API_KEY="s3cret"))
        again.cookies = visitor.cookies
        assert again.get("/").status == 200
        assert again.post("/queue/emails/pause", token=visitor.csrf).status == 303

    def test_others_are_not_shown_them_without_a_key(self, command: Command) -> None:
        assert "only listens on this machine" in command.refused("--admin-host", "0.0.0.0")  # noqa: S104

    def test_a_port_that_is_taken_is_told(self, command: Command) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as taken:
            assert "--admin-port" in command.refused("--admin-port", str(taken.getsockname()[1]))


def test_defaults_hold_for_queues_that_say_nothing(shared: Served) -> None:
    assert shared.ask("GET", "/v1/queues/jobs/policy").json["max_attempts"] == 2
    shared.ask("PUT", "/v1/queues/jobs", {"lease_ms": 1000})
    origins = shared.ask("GET", "/v1/queues/jobs").json["origins"]
    assert (origins["lease_ms"], origins["max_attempts"], origins["ttl_ms"]) == ("queue", "server", "default")


def test_requests_are_logged_without_secrets(serve: Serve) -> None:
    served = serve("--access-log", "--log-format", "json", ROWQ_API_KEY="s3cret")
    served.ask("GET", "/v1/queues?token=t0ken", X_API_Key="s3cret")
    served.signal()
    assert served.ended() == 0
    lines = [msgspec.json.decode(line) for line in served.log.splitlines()]
    [request] = [line for line in lines if line["logger"] == "rowq.access"]
    assert (request["method"], request["path"], request["key"], request["peer"]) == ("GET", "/v1/queues", "env", "127.0.0.1")
    assert "s3cret" not in served.log and "t0ken" not in served.log


def test_hot_requests_are_logged_as_they_were_answered(serve: Serve) -> None:
    served = serve("--access-log", "--log-format", "json")
    sent = served.ask("POST", MESSAGES, {"payload": 1})
    received = served.ask("POST", DELIVERIES, {})
    acked = served.ask("POST", "/v1/ack", {"receipts": [received.json["deliveries"][0]["receipt"]]})
    served.signal()
    assert served.ended() == 0
    lines = [msgspec.json.decode(line) for line in served.log.splitlines()]
    logged = [(line["path"], line["status"], line["bytes"]) for line in lines if line["logger"] == "rowq.access"]
    answers = ((MESSAGES, sent), (DELIVERIES, received), ("/v1/ack", acked))
    assert logged == [(path, answer.status, len(answer.body)) for path, answer in answers]


def test_a_server_is_not_served(command: Command) -> None:
    assert "names a server" in command.refused(ROWQ_URL="http://localhost:8080")


def test_the_command_line_does_not_load_the_server_for_other_commands() -> None:
    code = "import sys, rowq.cli.main; print([name for name in ('uvicorn', 'starlette', 'rowq.server') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
