"""A conversation with the server over a bare socket: what is said, when it is said, and when somebody leaves."""

from __future__ import annotations

import json
import socket
from types import TracebackType
from typing import Any, Self

from tests.support.server import Server

PATIENCE = 30


class Dialogue:
    """One connection. `ask` and `answer` apart, so that something can happen in between."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        self._stream = self._socket.makefile("rb")

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(data)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self._socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    def say(self, data: bytes) -> None:
        self._socket.sendall(data)

    def rest(self) -> bytes:
        """All until the server hangs up."""
        return self._stream.read()

    def answer(self) -> tuple[int, Any]:
        status, headers = self.head()
        data = self._stream.read(int(headers.get("content-length", 0)))
        return status, json.loads(data) if data else None

    def head(self) -> tuple[int, dict[str, str]]:
        status = int(self._stream.readline().split()[1])
        headers: dict[str, str] = {}
        while line := self._stream.readline().strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return status, headers

    def event(self) -> tuple[str, Any]:
        """The next server-sent event of a chunked answer: its name and its data; comments are passed over."""
        name, data = "", None
        while True:
            line = self._stream.readline()
            if not line:
                return "end", None
            text = line.strip().decode()
            if text.startswith("event: "):
                name = text.removeprefix("event: ")
            elif text.startswith("data: "):
                data = json.loads(text.removeprefix("data: "))
            elif not text and name:
                return name, data
            elif text == "0":
                return "end", None

    def leave(self) -> None:
        """At once, without a farewell."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._stream.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stream.close()
        self._socket.close()
