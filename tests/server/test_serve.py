"""`rowq serve`: how it starts, whom it lets in, what it prints, and how it stops."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

import rowq
from tests.admin.visiting import Visitor
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
    running: list[Served] = []

    def start(*args: str, **environment: str) -> Served:
        served = Served(tmp_path, "--json", *args, **environment)
        running.append(served)
        served.announced()
        return served

    yield start
    for served in running:
        served.close()


def seldom(condition: Callable[[], bool]) -> Callable[[], bool]:
    """The condition, looked at twice a second: whoever tries a wrong key more often is locked out."""
    looked = float("-inf")

    def look() -> bool:
        nonlocal looked
        if time.monotonic() - looked < 0.5:
            return False
        looked = time.monotonic()
        return condition()

    return look


def refused(folder: Path, *args: str, **environment: str) -> str:
    """What a server says that does not start; it ends with exit code 2 and prints nothing."""
    served = Served(folder, *args, **environment)
    try:
        assert served.ended() == 2, served.log
        assert served.process.stdout is not None and served.process.stdout.read() == b""
        assert "Traceback" not in served.log
        return served.log
    finally:
        served.close()


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


def test_answers_tell_nothing_of_the_software(serve: Serve) -> None:
    headers = serve().ask("GET", "/healthcheck").headers
    assert "server" not in headers and "date" in headers


def test_people_are_shown_their_first_steps(tmp_path: Path) -> None:
    served = Served(tmp_path)
    try:
        assert served.process.stdout is not None
        lines = [served.process.stdout.readline().decode() for _ in range(9)]
        url = lines[0].split()[-1]
        assert lines[0] == f"rowq {rowq.__version__} serves sqlite:///rowq.db at {url}\n"
        shown = "".join(lines)
        assert all(f"{url}/{path}" in shown for path in ("v1/queues/demo/messages", "v1/queues/demo/deliveries", "v1/ack", "docs"))
        assert "No key is needed" in shown and "X-API-Key" not in shown
    finally:
        served.close()


def test_with_keys_the_first_steps_say_where_the_key_goes(tmp_path: Path) -> None:
    served = Served(tmp_path, ROWQ_API_KEY="s3cret")
    try:
        assert served.process.stdout is not None
        shown = "".join(served.process.stdout.readline().decode() for _ in range(8))
        assert shown.count('-H "X-API-Key: $ROWQ_API_KEY"') == 3
        assert "s3cret" not in shown
    finally:
        served.close()


def test_it_serves_on_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    served = Served(tmp_path, "--port", str(port), "--admin-port", "0")
    try:
        assert served.process.stdout is not None
        served.process.stdout.close()
        served.url = f"http://127.0.0.1:{port}"

        def is_up() -> bool:
            try:
                return served.ask("GET", "/healthcheck").status == 204
            except OSError:
                return False

        eventually(is_up)
    finally:
        served.process.stdout = None
        served.close()


class TestKeys:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104
    def test_without_a_key_others_cannot_be_let_in(self, tmp_path: Path, host: str) -> None:
        assert "without a key the server only listens on this machine" in refused(tmp_path, "--host", host)

    def test_with_a_key_others_are_let_in_who_have_it(self, serve: Serve) -> None:
        served = serve("--host", "0.0.0.0", ROWQ_API_KEY="s3cret")  # noqa: S104
        assert served.ask("GET", "/healthcheck").status == 204
        assert served.ask("GET", "/v1/queues").status == 401
        assert served.ask("GET", "/v1/queues", X_API_Key="wrong").status == 401
        assert served.ask("GET", "/v1/queues", X_API_Key="s3cret", Host="queue.example.com").status == 200

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
            revoked = time.monotonic()
            eventually(lambda: served.ask("GET", "/v1/queues", X_API_Key=secret).status == 401)
        assert time.monotonic() - revoked < 5
        assert served.ask("GET", "/v1/queues", X_API_Key="s3cret").status == 200

    def test_without_keys_a_page_of_another_site_is_refused(self, serve: Serve) -> None:
        served = serve()
        assert served.ask("POST", MESSAGES, {"payload": 1}, Host="evil.example.com").status == 403
        assert served.ask("POST", MESSAGES, {"payload": 1}, Origin="https://evil.example.com").status == 403

    def test_the_audit_tells_which_key_it_was(self, serve: Serve) -> None:
        served = serve(ROWQ_API_KEY="s3cret")
        id = served.ask("POST", MESSAGES, {"payload": 1}, X_API_Key="s3cret").json["id"]
        [event] = served.ask("GET", f"/v1/messages/{id}/audit", X_API_Key="s3cret").json["events"]
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
            connection.endheaders()
            connection.send(body[:1_000])
            eventually(lambda: served.ask("GET", "/healthcheck").status == 204)
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
            with pytest.raises(OSError):  # noqa: PT011  # refused, or reset
                served.ask("GET", "/healthcheck")

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

    def waiting(self, served: Served) -> float:
        lines = served.ask("GET", "/metrics").body.decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith("rowq_waiting_consumers"))


class TestTls:
    def test_a_certificate_makes_it_https(self, serve: Serve) -> None:
        served = serve("--tls-cert", str(CERTIFICATE))
        assert served.url.startswith("https://")
        assert served.ask("GET", "/healthcheck").status == 204
        connection = served.connection()
        connection.connect()
        with closing(connection):
            assert isinstance(connection.sock, ssl.SSLSocket)
            assert connection.sock.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(
                CERTIFICATE.read_text().partition("-----BEGIN PRIV")[0]
            )

    @pytest.mark.parametrize(("flag", "chosen"), [("--http2", "h2"), ("--no-http2", "http/1.1")])
    def test_the_protocol_is_agreed_on(self, serve: Serve, flag: str, chosen: str) -> None:
        parts = urlsplit(serve("--tls-cert", str(CERTIFICATE), flag).url)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2", "http/1.1"])
        with socket.create_connection((parts.hostname, parts.port), timeout=20) as plain, context.wrap_socket(plain) as agreed:
            assert agreed.selected_alpn_protocol() == chosen

    def test_a_certificate_that_is_none_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "no.pem").write_text("hello")
        assert "cannot be used" in refused(tmp_path, "--tls-cert", "no.pem")


class TestMistakes:
    def test_a_port_that_is_taken_is_told(self, tmp_path: Path) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as taken:
            told = refused(tmp_path, "--port", str(taken.getsockname()[1]))
        assert "somebody listens there already" in told

    def test_a_host_that_is_not_ours_is_told(self, tmp_path: Path) -> None:
        assert "no address of this machine" in refused(tmp_path, "--host", "192.0.2.1", ROWQ_API_KEY="s3cret")

    def test_several_processes_on_sqlite_are_refused(self, tmp_path: Path) -> None:
        assert "one process write at a time" in refused(tmp_path, "--workers", "4")

    def test_a_mistake_in_the_file_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "rowq.toml").write_text("[server]\nprot = 1\n")
        assert "did you mean port?" in refused(tmp_path)

    def test_the_file_names_the_database_unless_somebody_else_does(self, serve: Serve, tmp_path: Path) -> None:
        (tmp_path / "rowq.toml").write_text('[server]\nurl = "sqlite:///of-file.db"\n')
        serve().close()
        assert (tmp_path / "of-file.db").exists()
        serve(ROWQ_URL="sqlite:///of-variable.db").close()
        assert (tmp_path / "of-variable.db").exists()
        serve("--url", "sqlite:///of-flag.db", ROWQ_URL="sqlite:///nobody.db").close()
        assert (tmp_path / "of-flag.db").exists() and not (tmp_path / "nobody.db").exists()


def visitor_of(served: Served) -> Visitor:
    assert served.admin is not None
    return Visitor(served.admin)


class TestPages:
    def test_they_have_a_port_of_their_own(self, serve: Serve) -> None:
        served = serve()
        pages = visitor_of(served)
        assert pages.get("/").status == 200 and pages.get("/v1/queues").status == 404
        assert served.ask("GET", "/login").status == 404

    def test_they_know_where_the_api_is(self, serve: Serve) -> None:
        served = serve()
        shown = visitor_of(served).get("/queue/emails/").words
        assert f"curl -X POST {served.url}/v1/queues/emails/messages" in shown

    def test_they_can_be_left_out(self, serve: Serve) -> None:
        assert serve("--no-admin").admin is None

    def test_a_session_survives_a_restart(self, serve: Serve) -> None:
        first = serve(ROWQ_API_KEY="s3cret")
        visitor = visitor_of(first)
        visitor.log_in("s3cret")
        first.signal()
        assert first.ended() == 0
        again = visitor_of(serve(ROWQ_API_KEY="s3cret"))
        again.cookies = visitor.cookies
        assert again.get("/").status == 200
        assert again.post("/queue/emails/pause", token=visitor.csrf).status == 303

    def test_others_are_not_shown_them_without_a_key(self, tmp_path: Path) -> None:
        assert "only listens on this machine" in refused(tmp_path, "--admin-host", "0.0.0.0")  # noqa: S104

    def test_a_port_that_is_taken_is_told(self, serve: Serve, tmp_path: Path) -> None:
        port = str(serve().admin).rpartition(":")[2]
        assert "--admin-port" in refused(tmp_path, "--admin-port", port)


def test_defaults_hold_for_queues_that_say_nothing(serve: Serve) -> None:
    served = serve(ROWQ_DEFAULTS='{"max_attempts": 2}')
    assert served.ask("GET", "/v1/queues/jobs/policy").json["max_attempts"] == 2
    served.ask("PUT", "/v1/queues/jobs", {"lease_ms": 1000})
    origins = served.ask("GET", "/v1/queues/jobs").json["origins"]
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


def test_a_server_is_not_served(tmp_path: Path) -> None:
    assert "names a server" in refused(tmp_path, ROWQ_URL="http://localhost:8080")


def test_the_command_line_does_not_load_the_server_for_other_commands() -> None:
    code = "import sys, rowq.cli.main; print([name for name in ('uvicorn', 'starlette', 'rowq.server') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
