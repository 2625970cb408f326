"""A way to a server that can be cut, at a word or at once, that can be slow or stand still, and stays open while the server is away."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

_PIECE = 1 << 16


class CuttableWay:
    """Listens at `port`. Once `cut_at` is set, the first piece that holds the word ends its connection: the server still gets it if
    `forwards`, and nobody hears the answer. Then the way is open again."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        self.cut_at: bytes | None = None
        self.forwards = True
        self.cuts = 0
        self.delivered = 0
        """Cuts behind which the server has done what it was told."""
        self.delay = 0.0
        """Seconds that every piece is on its way."""
        self.piece = _PIECE
        """Bytes that pass at once."""
        self.flows = threading.Event()
        """Whether anything passes at all: cleared, all stand still, and nobody is cut."""
        self.flows.set()
        self._is_over = threading.Event()
        self._muted: set[socket.socket] = set()
        """Clients that were cut at a word: what their servers still say is heard by nobody, and no reason to cut those as well."""
        self._ends: set[socket.socket] = set()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def connections(self) -> int:
        return len(self._ends) // 2

    def cut_all(self) -> None:
        """Whoever is connected now."""
        self._cut(list(self._ends))

    def cut_some(self, choose: random.Random) -> int:
        """Each of those that are connected now by chance; how many ends that were."""
        ends = [end for end in list(self._ends) if choose.random() < 0.5]
        self._cut(ends)
        return len(ends)

    def close(self) -> None:
        self._is_over.set()
        self.flows.set()
        _close(self._listener)
        self.cut_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _cut(self, ends: list[socket.socket]) -> None:
        for end in ends:
            self._ends.discard(end)
            _close(end)

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._ends.add(end)
                threading.Thread(target=self._forward, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._forward, args=(server, client, False), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_asking: bool) -> None:
        with suppress(OSError):
            while data := source.recv(self.piece):
                self.flows.wait()
                if self.delay:
                    self._is_over.wait(self.delay)
                if is_asking and self.cut_at is not None and self.cut_at in data:
                    self._cut_here(source, target, data)
                    break
                try:
                    target.sendall(data)
                except OSError:
                    if target not in self._muted:
                        break
        self._cut([source, target])

    def _cut_here(self, source: socket.socket, target: socket.socket, data: bytes) -> None:
        self.cut_at = None
        self.cuts += 1
        self._muted.add(source)
        _close(source)  # first: nobody may hear the answer
        if self.forwards:
            target.sendall(data)
            target.shutdown(socket.SHUT_WR)  # the server does what it was told, and finds nobody to tell
            with suppress(OSError):  # it may have been in a hurry to close
                while target.recv(_PIECE):
                    pass
            self.delivered += 1


def by_way_of(port: int, url: str) -> str:
    """The same database through a port that listens in between, and so in the clear."""
    parts = urlsplit(url)
    options = "sslmode=disable&gssencmode=disable" if parts.scheme == "postgresql" else "ssl_disabled=true"
    return urlunsplit((parts.scheme, parts.netloc.replace(f":{parts.port}", f":{port}"), parts.path, options, ""))


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
