"""A proxy before a database that knows a commit when it passes: it takes the next mood from a list, and all else passes."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

PIECE = 65_536
QUIET = 0.2
"""Seconds without a word: the answer is complete."""


class Mood(Enum):
    CUT_BEFORE = "hangs up when the commit comes, and passes nothing on"
    CUT_AMID = "passes the commit on, and hangs up at once"
    CUT_AFTER = "passes the commit on, waits for the answer, and hangs up without it"
    HOLD = "passes the commit on, and keeps the answer until it is told to let it go"


class PostgresqlEar:
    """Hears what a client of PostgreSQL says: a commit may be a statement that was prepared long ago, and is called by its name only."""

    def __init__(self) -> None:
        self._heard = b""
        self._has_begun = False
        self._commits: set[bytes] = set()

    def hears_commit(self, piece: bytes) -> bool:
        self._heard += piece
        found = False
        while message := self._next():
            kind, body = message
            if kind == b"P" and body.split(b"\0")[1].strip().upper() == b"COMMIT":
                self._commits.add(body.split(b"\0")[0])
            found |= kind == b"B" and body.split(b"\0")[1] in self._commits
        return found

    def _next(self) -> tuple[bytes, bytes] | None:
        """A message is a letter, its length and its body; the very first has no letter."""
        letters = 1 if self._has_begun else 0
        if len(self._heard) < letters + 4:
            return None
        end = letters + int.from_bytes(self._heard[letters : letters + 4], "big")
        if len(self._heard) < end:
            return None
        message = (self._heard[:letters], self._heard[letters + 4 : end])
        self._heard, self._has_begun = self._heard[end:], True
        return message


class MariadbEar:
    def hears_commit(self, piece: bytes) -> bool:
        return b"COMMIT" in piece


class CommitProxy:
    def __init__(self, port: int, ear: Callable[[], PostgresqlEar | MariadbEar]) -> None:
        self._upstream = port
        self._ear = ear
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port: int = self._listening.getsockname()[1]
        self.moods: deque[Mood] = deque()
        self.meets_anything = False
        """Whether any word takes the next mood, as where one statement is a transaction, and nobody says commit."""
        self.is_refusing = False
        """Whether it hangs up on whoever comes anew."""
        self.holds = threading.Event()
        self.let_go = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.let_go.set()
        _end(self._listening)
        while self._open:
            _end(self._open.pop())

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self.is_refusing:
                    _end(client)
                    continue
                server = socket.create_connection(("127.0.0.1", self._upstream))
                self._open += [client, server]
                _Passage(self, client, server, self._ear())


class _Passage:
    """One client and its server."""

    def __init__(self, proxy: CommitProxy, client: socket.socket, server: socket.socket, ear: PostgresqlEar | MariadbEar) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._ear = ear
        self._mood: Mood | None = None
        for pump in (self._pass_questions, self._pass_answers):
            threading.Thread(target=pump, daemon=True).start()

    def _pass_questions(self) -> None:
        with suppress(OSError):
            while piece := self._client.recv(PIECE):
                if (self._ear.hears_commit(piece) or self._proxy.meets_anything) and self._proxy.moods:
                    self._mood = self._proxy.moods.popleft()
                if self._mood is Mood.CUT_BEFORE:
                    break
                self._server.sendall(piece)
                if self._mood is Mood.CUT_AMID:
                    break
        self._hang_up()

    def _pass_answers(self) -> None:
        with suppress(OSError):
            while piece := self._server.recv(PIECE):
                if self._mood is Mood.CUT_AFTER:
                    self._listen_to_the_end()
                    break
                if self._mood is Mood.HOLD:
                    piece += self._listen_to_the_end()
                    self._mood = None
                    self._proxy.holds.set()
                    self._proxy.let_go.wait(60)
                self._client.sendall(piece)
        self._hang_up()

    def _listen_to_the_end(self) -> bytes:
        """Statements that came with the commit are answered before it."""
        heard = b""
        self._server.settimeout(QUIET)
        with suppress(TimeoutError):
            while piece := self._server.recv(PIECE):
                heard += piece
        self._server.settimeout(None)
        return heard

    def _hang_up(self) -> None:
        _end(self._client)
        _end(self._server)


def _end(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
