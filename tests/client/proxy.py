"""A proxy that spoils connections on purpose: each question that passes takes the next mood from a list, and is well again after it."""

from __future__ import annotations

import socket
import threading
from collections import deque
from contextlib import suppress
from enum import Enum

PIECE = 65_536
_SURPLUS = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Mood(Enum):
    WELL = "passes questions and answers on"
    CUT_BEFORE = "hangs up when a question comes, and passes nothing on"
    CUT_AFTER = "passes the question on, waits for the answer, and hangs up without it"
    CUT_AMID = "passes on half of the answer, and hangs up"
    GARBLED = "passes the question on, and answers with what is no HTTP"
    SILENT = "passes the question on, and never answers"
    USURPED = "passes the question on, and answers in words of its own"
    SURPLUS = "passes on the answer, and another behind it"
    HELD = "hangs up, and passes the question on when it is told to"


class Proxy:
    def __init__(self, port: int) -> None:
        self._upstream = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._is_closed = threading.Event()
        self.moods: deque[Mood] = deque()
        self.questions: list[bytes] = []
        """Every question that came, whatever became of it."""
        self.accepted = 0
        self.words = b""
        """What it answers where it answers itself."""
        self.told = threading.Event()
        """To pass on what it has held up."""
        self.passed_on = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def hang_up(self) -> None:
        """On all that are connected now."""
        while self._open:
            _end(self._open.pop())

    def close(self) -> None:
        self._is_closed.set()
        self.told.set()
        _end(self._listening)
        self.hang_up()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self.accepted += 1
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One question after another; each is read to its end before it is passed on."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._upstream)) as server:
            self._open.append(server)
            while question := _message(client):
                self.questions.append(question)
                mood = self.moods.popleft() if self.moods else Mood.WELL
                if mood is Mood.CUT_BEFORE:
                    break
                if mood is Mood.HELD:
                    _end(client)
                    self.told.wait(20)
                server.sendall(question)
                answer = _message(server)
                if mood is Mood.HELD:
                    self.passed_on.set()
                    break
                if mood in (Mood.WELL, Mood.USURPED, Mood.SURPLUS):
                    client.sendall({Mood.WELL: answer, Mood.USURPED: self.words, Mood.SURPLUS: answer + _SURPLUS}[mood])
                    continue
                if mood is Mood.CUT_AMID:
                    client.sendall(answer[: len(answer) // 2])
                elif mood is Mood.GARBLED:
                    client.sendall(b"\x00\x01 nonsense\r\n\r\n")
                elif mood is Mood.SILENT:
                    self._is_closed.wait(20)
                break
        _end(client)


def _message(sock: socket.socket) -> bytes:
    """A question or an answer with its body; empty when the other side is done."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(PIECE)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += sock.recv(PIECE)
    return head + b"\r\n\r\n" + body


def _end(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
