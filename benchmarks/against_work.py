"""The work that `benchmarks.against` compares two commits by: each a function that does it and says how many messages it was."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import NamedTuple

import psutil

import rowq
from benchmarks.cores import cpu_of_server
from benchmarks.together import Processes, Turning

PAYLOAD = {"order": 17, "total": 12.5, "customer": "ada@example.com"}
HEADERS = {"trace": "4bf92f3577b34da6a3ce929d0e0e4736", "tenant": "acme"}


class Figure(NamedTuple):
    """Microseconds a message."""

    cpu_us: float
    wall_us: float
    server_us: float
    """CPU time of the database server's processes; 0 where there is none."""


Measure = Callable[[str, float], Figure]
"""On the empty database of that URL, at that scale."""


_database_server = 0
"""Its process."""


def in_process(work: Callable[[rowq.Broker, int], None], count: int, *, full: int = 0, options: str = "") -> Measure:
    """`full`: how many messages wait in the queue for each one that is counted."""

    def measure(url: str, scale: float) -> Figure:
        total = max(100, int(count * scale) // 100 * 100)
        with rowq.connect(url + options) as broker:
            _fill(broker, total * full)
            work(broker, 100)
            stop = _started(time.process_time)
            work(broker, total)
            return stop(total)

    return measure


def _fill(broker: rowq.Broker, count: int) -> None:
    for _ in range(0, count, 1_000):
        broker.send_many("work", [PAYLOAD] * 1_000)


def _started(cpu: Callable[[], float]) -> Callable[[int], Figure]:
    """Starts the clocks; the function that it returns stops them, after that many messages."""
    server_before = cpu_of_server(_database_server)  # outside of the other two, since it takes a moment
    cpu_before, before = cpu(), time.perf_counter()

    def stop(count: int) -> Figure:
        spent = (cpu() - cpu_before, time.perf_counter() - before, cpu_of_server(_database_server) - server_before)
        return Figure(*[seconds / count * 1e6 for seconds in spent])

    return stop


def by_processes(work: str, count: int, *, audit: bool, full: int = 0) -> Measure:
    """By three processes, each with a broker and one thread."""

    def measure(url: str, scale: float) -> Figure:
        each = max(100, int(count * scale) // 300 * 100)
        with rowq.connect(url) as broker:
            broker.configure("work", audit=audit)
            _fill(broker, 3 * each * full)
        with Processes("benchmarks.against_work:client", [(url, work)] * 3) as processes:
            processes.turn(100)
            stop = _started(processes.cpu)
            return stop(processes.turn(each).messages)

    return measure


@asynccontextmanager
async def client(url: str, work: str) -> AsyncIterator[Turning]:
    with rowq.connect(url) as broker:

        async def turn(count: float) -> int:
            {"send": _send_many, "receive": _receive_many}[work](broker, int(count))
            return int(count)

        yield turn


def _send(broker: rowq.Broker, count: int) -> None:
    for _ in range(count):
        broker.send("work", PAYLOAD)


def _send_with_options(broker: rowq.Broker, count: int) -> None:
    for number in range(count):
        broker.send("work", PAYLOAD, key=f"key-{number}", headers=HEADERS)


def _send_many(broker: rowq.Broker, count: int) -> None:
    for _ in range(0, count, 100):
        broker.send_many("work", [PAYLOAD] * 100)


def _receive(broker: rowq.Broker, count: int) -> None:
    for _ in range(count):
        broker.ack(broker.receive("work")[0])


def _receive_many(broker: rowq.Broker, count: int) -> None:
    for _ in range(0, count, 100):
        broker.ack_many(broker.receive("work", max=100))


def _receive_by_16(broker: rowq.Broker, count: int) -> None:
    """16 threads, each with single messages."""
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda _: _receive(broker, count // 16), range(16)))


def coroutines(count: int) -> Measure:
    """64 coroutines of one loop, each with single sends."""

    async def run(url: str, total: int) -> Figure:
        async with rowq.connect_async(url) as broker:

            async def caller(each: int) -> None:
                for _ in range(each):
                    await broker.send("work", PAYLOAD)

            await asyncio.gather(*(caller(2) for _ in range(64)))
            stop = _started(time.process_time)
            await asyncio.gather(*(caller(total // 64) for _ in range(64)))
            return stop(total // 64 * 64)

    return lambda url, scale: asyncio.run(run(url, max(640, int(count * scale))))


def over_http(requests: Callable[[int], list[bytes]], count: int, *, each: int = 1, settle: bool = False) -> Measure:
    """One connection, one request after another; the CPU time is the server's alone."""

    def measure(url: str, scale: float) -> Figure:
        total = max(200, int(count * scale))
        with _Server(url) as server:
            if settle:
                server.ask_all([_post("/v1/queues/work/messages", {"messages": [{"payload": PAYLOAD}] * 1_000})] * (total // 1_000 + 2))
            work = server.receive_and_ack if settle else lambda number: server.ask_all(requests(number))
            work(100)
            stop = _started(server.cpu)
            work(total)
            return stop(total * each)

    return measure


class _Server:
    def __init__(self, url: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        program = "import sys; from rowq.cli.main import main; sys.exit(main())"
        words = ["serve", "--url", url, "--port", str(self._port), "--no-admin"]
        self._process = subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def __enter__(self) -> _Server:
        until = time.monotonic() + 30
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", self._port))
                break
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    assert self._process.stderr is not None
                    raise SystemExit(self._process.stderr.read().decode()) from None
                time.sleep(0.02)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait()

    def cpu(self) -> float:
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def ask(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        answer = self._socket.recv(1 << 20)
        while b"\r\n\r\n" not in answer:
            answer += self._socket.recv(1 << 20)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")), answer
        length = int(re.search(rb"content-length: (\d+)", head.lower())[1])  # type: ignore[index]
        while len(body) < length:
            body += self._socket.recv(1 << 20)
        return body

    def ask_all(self, requests: list[bytes]) -> None:
        for request in requests:
            self.ask(request)

    def receive_and_ack(self, count: int) -> None:
        receive = _post("/v1/queues/work/deliveries", {"max": 1})
        for _ in range(count):
            receipt = json.loads(self.ask(receive))["deliveries"][0]["receipt"]
            self.ask(_post("/v1/ack", {"receipts": [receipt]}))


def _post(path: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        path.encode(),
        len(data),
        data,
    )


def _plain(count: int) -> list[bytes]:
    return [_post("/v1/queues/work/messages", {"payload": PAYLOAD})] * count


def _with_options(count: int) -> list[bytes]:
    return [_post("/v1/queues/work/messages", {"payload": PAYLOAD, "key": f"key-{n}", "headers": HEADERS}) for n in range(count)]


def _batches(count: int) -> list[bytes]:
    return [_post("/v1/queues/work/messages", {"messages": [{"payload": PAYLOAD}] * 100})] * count


_IN_PROCESS: dict[str, Measure] = {
    "send": in_process(_send, 6_000),
    "send with key and headers": in_process(_send_with_options, 4_000),
    "send_many(100)": in_process(_send_many, 60_000),
    "receive + ack": in_process(_receive, 4_000, full=2),
    "receive(100) + ack_many": in_process(_receive_many, 40_000, full=2),
    "16 threads receive + ack": in_process(_receive_by_16, 8_000, full=2),
    "64 coroutines send": coroutines(30_000),
}
_OVER_HTTP: dict[str, Measure] = {
    "send": over_http(_plain, 6_000),
    "send with key and headers": over_http(_with_options, 6_000),
    "send 100": over_http(_batches, 300, each=100),
    "receive + ack": over_http(_plain, 4_000, settle=True),
}
_BY_PROCESSES: dict[str, Measure] = {
    f"3 processes {name}, {'audit' if audit else 'no audit'}": by_processes(work, count, audit=audit, full=full)
    for name, work, count, full in (("send_many(100)", "send", 150_000, 0), ("receive(100) + ack_many", "receive", 90_000, 2))
    for audit in (True, False)
}
WORK: dict[str, Measure] = {
    **{f"sqlite {name}": measure for name, measure in _IN_PROCESS.items()},
    "sqlite send, durability normal": in_process(_send, 6_000, options="?durability=normal"),
    "sqlite receive + ack, durability normal": in_process(_receive, 4_000, full=2, options="?durability=normal"),
    **{f"http {name}": measure for name, measure in _OVER_HTTP.items()},
    **{f"postgresql {name}": measure for name, measure in (_IN_PROCESS | _BY_PROCESSES).items()},
    **{f"mariadb {name}": measure for name, measure in _IN_PROCESS.items()},
}


if __name__ == "__main__":
    _, name, url, scale, server = sys.argv
    _database_server = int(server)
    sys.stdout.write(json.dumps(WORK[name](url, float(scale))._asdict()))
