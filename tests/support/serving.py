"""`rowq serve` as a process: started on a free port, asked over HTTP, ended with the test."""

from __future__ import annotations

import http.client
import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

DEADLINE = 60


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Served:
    """A running server. `url` is where it listens, `admin` where its pages are; its log is in `log` once it has ended."""

    program: tuple[str, str] = ("-m", "rowq.cli.main")
    """What Python runs."""
    python = sys.executable

    def __init__(self, folder: Path, *args: str, **environment: str) -> None:
        known = {name: value for name, value in os.environ.items() if not name.startswith("ROWQ_")}
        self.log_file = folder / "server.log"
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [self.python, "-W", "error", *self.program, "serve", "--port", "0", *args],
                cwd=folder,
                env={**known, **environment, "NO_COLOR": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.url = ""
        self.admin: str | None = None

    def announced(self) -> Any:
        """What it prints with --json, once it listens."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log
        document = msgspec.json.decode(line)
        self.url, self.admin = document["url"], document["admin"]
        return document

    def connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        if parts.scheme == "https":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=DEADLINE, context=context)
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=DEADLINE)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = self.connection()
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            if body is not None:
                given["content-type"] = "application/json"
            connection.request(method, path, None if body is None else msgspec.json.encode(body), given)
            return answer_of(connection)
        finally:
            connection.close()

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def ended(self, within: float = DEADLINE) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(within)

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def answer_of(connection: http.client.HTTPConnection) -> Answer:
    response = connection.getresponse()
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
