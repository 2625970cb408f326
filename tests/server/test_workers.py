"""`rowq serve --workers N`: the work is spread, nobody notices when a worker dies, and all end together."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

import rowq
from rowq import InvalidArgument
from rowq.server.config import load
from tests.server.command import Command
from tests.support.background import Background
from tests.support.database import new_database
from tests.support.patience import eventually
from tests.support.serving import Answer, Served, answer_of

MESSAGES = "/v1/queues/jobs/messages"
DELIVERIES = "/v1/queues/jobs/deliveries"
WITHIN = 60.0
"""Seconds: the deadline for a hang."""


_PROGRAM = (
    "import sys; from rowq.engine import waiting; from rowq.cli.main import main; from rowq.server.api import events; "
    "waiting.SAFETY = events.LOOK_EVERY = 3600.0; sys.exit(main())"
)


class Unhurried(Served):
    """A server whose waiters and streams look for themselves once an hour: what comes to them sooner, another worker has told."""

    program = ("-c", _PROGRAM)


class Crew:
    """A server with several workers, and ways to one of them."""

    def __init__(self, served: type[Served], folder: Path, url: str, *args: str, workers: int = 2, **environment: str) -> None:
        self.database = url
        self.served = served(folder, "--json", "--workers", str(workers), *args, ROWQ_URL=url, **environment)
        self._open: list[http.client.HTTPConnection] = []
        self._seen: set[psutil.Process] = set()

    def workers(self) -> list[int]:
        """The ids of their processes."""
        found = psutil.Process(self.served.process.pid).children()
        self._seen.update(found)
        return [worker.pid for worker in found if _is_alive(worker)]

    def connection(self) -> tuple[http.client.HTTPConnection, int]:
        """A new one, and which worker has accepted it."""
        connection = self.served.connection()
        self._open.append(connection)
        connection.connect()
        port = connection.sock.getsockname()[1]

        def holder() -> int | None:
            return next((pid for pid in self.workers() if port in _peers(pid)), None)

        pid = eventually(holder)
        assert pid is not None
        return connection, pid

    def connection_to(self, worker: int) -> http.client.HTTPConnection:
        """The others stand still while it is opened: only this worker can accept it."""
        with _standing_still([psutil.Process(pid) for pid in self.workers() if pid != worker]):
            connection, pid = self.connection()
        assert pid == worker
        return connection

    def close(self) -> None:
        for connection in self._open:
            connection.close()
        if self.served.process.poll() is None:
            self.workers()
        self.served.close()
        for worker in self._seen:
            with suppress(psutil.NoSuchProcess):
                worker.kill()
        psutil.wait_procs(self._seen)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def _standing_still(processes: list[psutil.Process]) -> Iterator[None]:
    try:
        for process in processes:
            process.suspend()
        for process in processes:
            eventually(lambda: process.status() == psutil.STATUS_STOPPED)  # noqa: B023  # called at once
        yield
    finally:
        for process in processes:
            process.resume()


def _peers(pid: int) -> set[int]:
    """The ports of those who are connected to a process."""
    try:
        return {
            connection.raddr.port
            for connection in psutil.Process(pid).net_connections("tcp")
            if connection.status == psutil.CONN_ESTABLISHED
        }
    except psutil.NoSuchProcess:
        return set()


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, None if body is None else msgspec.json.encode(body), given)
    return answer_of(connection)


def begin(connection: http.client.HTTPConnection, length: int) -> None:
    """A request that the worker has begun to read, and whose body is still to come."""
    connection.putrequest("POST", MESSAGES)
    connection.putheader("content-length", str(length))
    connection.putheader("expect", "100-continue")
    connection.endheaders()
    assert connection.sock.recv(100).startswith(b"HTTP/1.1 100")


def metric(connection: http.client.HTTPConnection, name: str) -> float:
    """Of the queue `jobs`, where it is told by queue."""
    lines = ask(connection, "GET", "/metrics").body.decode().splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith((f'{name}{{queue="jobs"}} ', f"{name} "))), 0.0)


Start = Callable[..., Crew]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server on a database of its own, and waits until it listens."""
    with ExitStack() as stack:

        def start(*args: str, served: type[Served] = Served, kind: str = "postgresql", workers: int = 2, **environment: str) -> Crew:
            crew = Crew(served, tmp_path, new_database(kind, tmp_path).url, *args, workers=workers, **environment)
            stack.callback(crew.close)
            crew.served.announced()
            return crew

        yield start


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def crew(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """A server for all tests that leave it running, with three workers. Each test has a queue of its own."""
    folder = tmp_path_factory.mktemp("crew")
    with closing(Crew(Unhurried, folder, new_database(request.param, folder).url, workers=3)) as crew:
        crew.served.announced()
        yield crew


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    return Command(monkeypatch, tmp_path)


class TestServing:
    def test_every_worker_gets_its_share_of_the_clients(self, crew: Crew) -> None:
        assert len(crew.workers()) == 3
        for worker in crew.workers():
            connection = crew.connection_to(worker)
            assert ask(connection, "POST", "/v1/queues/shared/messages", {"payload": 1}).status == 201
        assert ask(connection, "GET", "/v1/queues/shared/stats").json["ready"] == 3

    @pytest.mark.prove("2 s of processes; test_all_workers_answer_what_has_begun stands for it")
    def test_it_is_announced_once_and_when_all_serve(self, start: Start) -> None:
        crew = start(workers=3)
        assert len(crew.workers()) == 3
        crew.served.signal()
        assert crew.served.ended() == 0
        assert crew.served.process.stdout is not None and crew.served.process.stdout.read() == b""
        assert "ERROR" not in crew.served.log and "WARNING" not in crew.served.log

    def test_people_are_told_how_many_workers_there_are(self, command: Command) -> None:
        first = command.said("--url", "postgresql://localhost/jobs", "--workers", "2")[1].splitlines()[0]
        assert first.startswith(f"rowq {rowq.__version__} serves postgresql://")
        assert first.endswith(", with 2 workers")

    def test_a_send_to_one_worker_wakes_a_consumer_that_waits_at_another(self, crew: Crew) -> None:
        first, second, _ = crew.workers()
        waiting, sending = crew.connection_to(first), crew.connection_to(second)
        for number in range(3):
            received = Background(lambda: ask(waiting, "POST", "/v1/queues/woken/deliveries", {"wait_ms": 60_000}))
            eventually(lambda: metric(sending, "rowq_waiting_consumers") == 1)
            assert ask(sending, "POST", "/v1/queues/woken/messages", {"payload": number}).status == 201
            [delivery] = received.result(20).json["deliveries"]
            assert delivery["payload"] == number

    def test_an_ack_at_one_worker_makes_room_on_a_stream_at_another(self, crew: Crew) -> None:
        first, second, _ = crew.workers()
        streaming, settling = crew.connection_to(first), crew.connection_to(second)
        ask(settling, "POST", "/v1/queues/streamed/messages", {"messages": [{"payload": number} for number in range(4)]})
        streaming.request("GET", "/v1/queues/streamed/deliveries?in_flight=1")
        stream = streaming.getresponse()
        for number in range(4):
            delivery = next_delivery(stream)
            assert delivery["payload"] == number
            assert ask(settling, "POST", "/v1/ack", {"receipts": [delivery["receipt"]]}).json["results"][0]["outcome"] == "done"
        streaming.close()

    def test_a_token_of_one_worker_opens_another(self, start: Start) -> None:
        crew = start(ROWQ_API_KEY="s3cret")
        first, second = crew.workers()
        token = ask(crew.connection_to(first), "POST", "/v1/tokens", X_API_Key="s3cret").json["token"]
        assert ask(crew.connection_to(second), "GET", f"/v1/queues?token={token}").status == 200

    def test_a_server_that_knew_a_key_stays_shut_at_a_worker_that_was_replaced(self, start: Start) -> None:
        crew = start()
        with rowq.connect(crew.database) as broker:
            secret = broker.create_key("brief", scopes=["admin"])
            for worker in crew.workers():
                connection = crew.connection_to(worker)
                eventually(lambda: ask(connection, "GET", "/v1/queues").status == 401)  # noqa: B023  # called at once
            broker.revoke_key("brief")
        before = crew.workers()
        os.kill(before[0], signal.SIGKILL)
        new = eventually(lambda: [worker for worker in crew.workers() if worker not in before])
        assert ask(crew.connection_to(new[0]), "GET", "/v1/queues").status == 401
        assert ask(crew.connection_to(new[0]), "GET", "/v1/queues", X_API_Key=secret).status == 401

    def test_the_limit_of_connections_holds_for_all_together(self, start: Start) -> None:
        crew = start("--max-connections", "6")
        admitted = [crew.connection()[0] for _ in range(6)]
        assert all(ask(connection, "GET", "/healthcheck").status == 204 for connection in admitted)
        with closing(crew.served.connection()) as connection:
            refused = ask(connection, "GET", "/healthcheck")
        assert (refused.status, refused.json["error"]) == (503, "All 6 connections of the server are in use: try again later.")
        for connection in admitted:
            connection.close()

        def is_let_in() -> bool:
            with closing(crew.served.connection()) as connection:
                return ask(connection, "GET", "/healthcheck").status == 204

        eventually(is_let_in)


def next_delivery(stream: http.client.HTTPResponse) -> Any:
    while not (line := stream.readline()).startswith(b'data: {"id"'):
        assert line, "the stream has ended"
    return msgspec.json.decode(line.removeprefix(b"data: "))


class TestDying:
    def test_a_worker_that_is_killed_is_replaced_and_nothing_answered_is_lost(self, start: Start) -> None:
        crew = start()
        before = crew.workers()
        answered: list[str] = []
        enough = threading.Event()

        def send() -> None:
            while not enough.is_set():
                try:
                    answer = crew.served.ask("POST", MESSAGES, {"payload": 1})
                except (OSError, http.client.HTTPException):
                    continue  # it was the one that was killed
                assert answer.status == 201
                answered.append(answer.json["id"])

        senders = [Background(send) for _ in range(4)]
        eventually(lambda: len(answered) > 50, WITHIN)
        os.kill(before[0], signal.SIGKILL)
        eventually(lambda: len(set(crew.workers()) - {before[0]}) == 2, WITHIN)
        seen = len(answered)
        eventually(lambda: len(answered) > seen + 50, WITHIN)
        enough.set()
        for sender in senders:
            sender.result(WITHIN)
        stored = {msgspec.json.decode(line)["id"] for line in crew.served.ask("GET", "/v1/messages?queue=jobs").body.splitlines()}
        assert set(answered) <= stored
        assert "was ended by SIGKILL; it is replaced" in crew.served.log

    def test_a_worker_that_is_told_to_stop_answers_first_and_is_replaced(self, start: Start) -> None:
        crew = start()
        first, second = crew.workers()
        connection = crew.connection_to(first)
        connection.request("POST", DELIVERIES, b'{"wait_ms": 60000}')
        eventually(lambda: metric(crew.connection_to(second), "rowq_waiting_consumers") == 1)
        os.kill(first, signal.SIGTERM)
        assert answer_of(connection).json == {"deliveries": []}
        eventually(lambda: first not in crew.workers() and len(crew.workers()) == 2)
        assert "ERROR" not in crew.served.log

    def test_workers_end_when_their_parent_was_killed(self, start: Start) -> None:
        crew = start(workers=3)
        workers = [psutil.Process(pid) for pid in crew.workers()]
        connection = crew.connection_to(workers[0].pid)
        connection.request("POST", DELIVERIES, b'{"wait_ms": 60000}')
        crew.served.process.kill()
        assert answer_of(connection).json == {"deliveries": []}, "they stop as if they were told to"
        assert not psutil.wait_procs(workers, timeout=WITHIN)[1]
        with pytest.raises(ConnectionRefusedError):
            crew.served.ask("GET", "/healthcheck")


class TestStopping:
    def test_all_workers_answer_what_has_begun(self, start: Start) -> None:
        crew = start()
        waiting = [crew.connection_to(worker) for worker in crew.workers()]
        for connection in waiting:
            connection.request("POST", DELIVERIES, b'{"wait_ms": 60000}')
        begun = crew.connection()[0]
        begin(begun, 15)
        begun.send(b'{"payload')
        eventually(lambda: metric(crew.connection()[0], "rowq_waiting_consumers") == 2)
        crew.served.signal()
        assert [answer_of(connection).json for connection in waiting] == [{"deliveries": []}] * 2
        with pytest.raises(ConnectionRefusedError):
            crew.served.ask("GET", "/healthcheck")
        begun.send(b'": 12}')
        assert answer_of(begun).status == 201
        assert crew.served.ended() == 0
        assert crew.served.log.count("rowq is stopping") == crew.served.log.count("rowq has stopped") == 1
        assert crew.served.process.stdout is not None and crew.served.process.stdout.read() == b"", "it was announced once"
        assert "ERROR" not in crew.served.log and "WARNING" not in crew.served.log

    @pytest.mark.parametrize(
        "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.prove("2 s of processes; SIGTERM stands for it"))]
    )
    def test_a_signal_to_all_processes_counts_once(self, start: Start, number: signal.Signals) -> None:
        """As systemd sends it, and a terminal."""
        crew = start()
        connection = crew.connection_to(crew.workers()[0])
        begin(connection, 14)
        connection.send(b'{"payload')
        for pid in (*crew.workers(), crew.served.process.pid):
            os.kill(pid, number)
        eventually(lambda: "is stopping" in crew.served.log)
        connection.send(b'": 1}')
        assert answer_of(connection).status == 201
        assert crew.served.ended() == 0
        assert "ERROR" not in crew.served.log

    def test_a_second_signal_ends_all_at_once(self, start: Start) -> None:
        crew = start()
        workers = [psutil.Process(pid) for pid in crew.workers()]
        for worker in workers:
            begin(crew.connection_to(worker.pid), 9)
        crew.served.signal()
        eventually(lambda: "is stopping" in crew.served.log)
        crew.served.signal()
        assert crew.served.ended() == 128 + signal.SIGTERM
        assert not psutil.wait_procs(workers, timeout=WITHIN)[1]


class TestMetrics:
    def test_whoever_is_asked_tells_the_sums_of_all(self, crew: Crew) -> None:
        connections = [crew.connection_to(worker) for worker in crew.workers()]
        for number in range(10):
            batch = [{"payload": number} for _ in range(100)]
            assert ask(connections[number % 3], "POST", MESSAGES, {"messages": batch}).status == 201
        for connection in connections:
            eventually(lambda: metric(connection, "rowq_messages_sent_total") == 1_000)  # noqa: B023  # called at once
            assert metric(connection, "rowq_transaction_rows_sum") >= 1_000

    @pytest.mark.prove("3 s of processes; test_sharing.py's test_a_successor_goes_on_from_what_was_told_last stands for it")
    def test_what_was_told_once_is_never_taken_back(self, start: Start) -> None:
        crew = start()
        first, second = crew.workers()
        connection, other = crew.connection_to(first), crew.connection_to(second)
        ask(connection, "POST", MESSAGES, {"messages": [{"payload": 1}] * 50})
        assert metric(connection, "rowq_messages_sent_total") == 50
        os.kill(first, signal.SIGKILL)
        assert metric(other, "rowq_messages_sent_total") == 50
        [new] = eventually(lambda: [worker for worker in crew.workers() if worker not in (first, second)])
        heir = crew.connection_to(new)
        assert metric(heir, "rowq_messages_sent_total") == 50
        ask(heir, "POST", MESSAGES, {"payload": 1})
        assert metric(heir, "rowq_messages_sent_total") == metric(other, "rowq_messages_sent_total") == 51

    @pytest.mark.prove("2 s of processes; test_sharing.py's test_what_was_counted_last_is_told_at_the_end stands for it")
    def test_what_a_worker_counted_last_is_kept_when_it_stops(self, start: Start) -> None:
        crew = start()
        first, second = crew.workers()
        connection, other = crew.connection_to(first), crew.connection_to(second)
        ask(connection, "POST", MESSAGES, {"messages": [{"payload": 1}] * 50})
        os.kill(first, signal.SIGTERM)
        eventually(lambda: first not in crew.workers())
        assert metric(other, "rowq_messages_sent_total") == 50


class TestRefusing:
    def test_sqlite_takes_one_process_and_says_why(self, command: Command) -> None:
        assert "which lets one process write at a time" in command.refused("--url", "sqlite:///jobs.db", "--workers", "2")

    def test_a_system_that_cannot_fork_takes_one_process(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delattr(os, "fork")
        with pytest.raises(InvalidArgument, match="needs fork"):
            load({"url": "postgresql://localhost/jobs", "workers": 2}, {}, folder=tmp_path)
        assert load({"url": "postgresql://localhost/jobs", "workers": 1}, {}, folder=tmp_path).workers == 1

    def test_what_a_single_server_refuses_is_refused_before_any_worker_starts(self, command: Command, tmp_path: Path) -> None:
        url = new_database("postgresql", tmp_path).url
        told = command.refused("--url", url, "--workers", "2", "--host", "0.0.0.0")  # noqa: S104
        assert "without a key the server only listens on this machine" in told
        assert "worker" not in told

    def test_a_database_that_is_not_there_is_told_once(self, command: Command) -> None:
        told = command.refused("--url", "postgresql://nobody@127.0.0.1:1/nothing?timeout=1", "--workers", "2", code=4)
        assert told.count("cannot connect to postgresql://127.0.0.1:1/nothing") == 1
        assert "worker" not in told


PROGRAM = """
import logging, os, signal, sys, time
from rowq.server import processes

logging.basicConfig(format="%(message)s")
processes.FIRST_PAUSE = {pause}

def work(worker):
    with open("starts", "ab", buffering=0) as starts:
        starts.write(b"%d\\n" % worker.number)
{work}

def show(*words):
    print(*words, flush=True)
    open(words[0], "w").close()

def wait_until_all_serve():
    while not os.path.exists("ready"):
        time.sleep(0.01)

try:
    processes.Workers(2, work, on_ready=lambda: show("ready"), on_stop=lambda: show("stop"), on_end=lambda number: None).run()
except Exception as error:
    show(type(error).__name__, error)
"""


class TestSupervision:
    """The parent alone, with workers that do something else than serving."""

    def run(self, folder: Path, *work: str, pause: float = 0.01) -> tuple[list[str], list[str], str]:
        """What it says, which workers it started, and its log."""
        program = PROGRAM.format(work="\n".join(f"    {line}" for line in work), pause=pause)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program], cwd=folder, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.splitlines(), (folder / "starts").read_text().split(), done.stderr

    def test_it_gives_up_when_workers_cannot_start(self, tmp_path: Path) -> None:
        said, starts, log = self.run(tmp_path, "import rowq", "raise rowq.StoreUnavailable('the database is full of clients')")
        assert said[0] == "stop"
        assert said[1].startswith("ServerUnavailable the server cannot start: worker")
        assert said[1].endswith("failed: the database is full of clients")
        assert 5 <= len(starts) <= 10
        assert "it is replaced in 0.01 s" in log and "it is replaced in 0.08 s" in log and "Traceback" not in log

    @pytest.mark.parametrize(("number", "name"), [("signal.SIGSEGV", "SIGSEGV"), ("signal.SIGRTMIN + 1", f"signal {signal.SIGRTMIN + 1}")])
    def test_it_gives_up_when_workers_are_struck_down_at_their_start(self, tmp_path: Path, number: str, name: str) -> None:
        said, starts, _ = self.run(tmp_path, f"os.kill(os.getpid(), {number})")
        assert said[1].endswith(f"was ended by {name}")
        assert len(starts) >= 5

    def test_it_gives_up_when_one_of_them_never_starts(self, tmp_path: Path) -> None:
        said, starts, _ = self.run(tmp_path, "if worker.number == 1: sys.exit(3)", "worker.tell_ready()", "signal.pause()")
        assert said == ["stop", "ServerUnavailable the server cannot start: worker 2 failed: SystemExit: 3"]
        assert sorted(starts) == ["0"] + ["1"] * 5

    def test_once_all_have_served_it_goes_on_trying(self, tmp_path: Path) -> None:
        """Worker 2 fails more often than it may at first, while the other one serves on."""
        said, starts, log = self.run(
            tmp_path,
            "starts = open('starts').read().split().count(str(worker.number))",
            "if worker.number == 1 and 1 < starts < 9: sys.exit(3)",
            "signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))",
            "worker.tell_ready()",
            "if worker.number == 1 and starts == 1: wait_until_all_serve(); os._exit(4)",
            "if worker.number == 1 and starts == 9: os.kill(os.getppid(), signal.SIGTERM)",
            "signal.pause()",
            pause=0.005,
        )
        assert said == ["ready", "stop"]
        assert sorted(starts) == ["0"] + ["1"] * 9
        assert "worker 2 ended with exit code 4; it is replaced in 0.005 s" in log
        assert "worker 2 failed: SystemExit: 3; it is replaced in 0.64 s" in log

    def test_workers_that_do_not_serve_yet_are_not_waited_for(self, tmp_path: Path) -> None:
        said, _, log = self.run(tmp_path, "if worker.number == 1: os.kill(os.getppid(), signal.SIGTERM)", "while True: signal.pause()")
        assert (said, log) == (["stop"], "")

    def test_a_worker_that_dies_while_all_stop_is_told(self, tmp_path: Path) -> None:
        said, _, _ = self.run(
            tmp_path,
            "signal.signal(signal.SIGTERM, lambda number, frame: os._exit(5 if worker.number == 1 else 0))",
            "worker.tell_ready()",
            "if worker.number == 0: wait_until_all_serve(); os.kill(os.getppid(), signal.SIGTERM)",
            "while True: signal.pause()",
        )
        assert said[:2] == ["ready", "stop"]
        assert said[2] == "ServerUnavailable worker 2 ended with exit code 5 before it had answered all requests"
