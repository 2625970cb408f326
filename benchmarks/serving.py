"""Servers and the load on them: each a process of its own, on this machine's loopback, for a bounded time."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from benchmarks.harness import Timing
from benchmarks.payload import payload

SECRET = "a-secret-for-the-benchmark"  # noqa: S105  # of a server that lives for seconds
QUEUE = "bench"
_SCRIPTS = Path(__file__).parent / "wrk"
_PATIENCE = 30


def has_generator() -> bool:
    return shutil.which("wrk") is not None


@contextmanager
def rowq_server(database: Path) -> Iterator[int]:
    """`rowq serve` as a user starts it: its defaults, with a key."""
    with _free_port() as port:
        pass
    command = [sys.executable, "-m", "rowq.cli.main", "--url", f"sqlite:///{database}", "serve", "--port", str(port), "--admin-port", "0"]
    with _running(command, port, env={**os.environ, "ROWQ_API_KEY": SECRET}):
        yield port


@contextmanager
def echo_server(*options: str) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0), backlog=2_048) as listening:
        port: int = listening.getsockname()[1]
        command = [sys.executable, "-m", "benchmarks.echo", str(listening.fileno()), *options]
        with _running(command, port, pass_fds=(listening.fileno(),)):
            yield port


def load(port: int, script: str, body: Path, *, connections: int, seconds: int) -> Timing:
    """Requests that were answered as they should, or cycles that were done, and the time that it took."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(_SCRIPTS / f"{script}.lua")]
    target = f"http://127.0.0.1:{port}/v1/queues/{QUEUE}/messages"
    environment = {**os.environ, "KEY": SECRET, "BODY": str(body), "QUEUE": QUEUE}
    answer = subprocess.run([*command, target], capture_output=True, check=True, text=True, env=environment)
    done, micros, bad = next(line for line in answer.stdout.splitlines() if line.startswith("RESULT")).split()[1:]
    assert int(bad) == 0, f"{bad} requests failed: {answer.stdout}"
    return Timing(int(micros) / 1e6, int(done))


def write_body(file: Path, messages: int) -> Path:
    """One message, or several in one request."""
    bodies = [{"payload": payload(number)} for number in range(messages)]
    file.write_text(json.dumps(bodies[0] if messages == 1 else {"messages": bodies}), encoding="utf-8")
    return file


@contextmanager
def _running(command: list[str], port: int, *, env: dict[str, str] | None = None, pass_fds: tuple[int, ...] = ()) -> Iterator[None]:
    here = Path(__file__).parents[1]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=env, pass_fds=pass_fds, cwd=here) as process:
        try:
            _wait_for(port, process)
            yield
        finally:
            process.terminate()
            process.wait(_PATIENCE)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
            connection.request("GET", "/healthcheck")
            connection.getresponse().read()
            connection.close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.02)


@contextmanager
def _free_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]
