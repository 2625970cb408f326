"""A way to a server that can be cut at a word: what passes is forwarded until somebody says it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class CuttableWay:
    """Listens at `port`. Once `cut_at` is set, the first piece that holds the word ends its connection: the server still gets it if
    `forwards`, and nobody hears the answer. Then the way is open again."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cut_at: bytes | None = None
        self.forwards = True
        self.cuts = 0
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def cut_all(self) -> None:
        """Whoever is connected now."""
        ends, self._ends = self._ends, []
        for end in ends:
            _close(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _close(self._listener)
        self.cut_all()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._ends += [client, server]
                threading.Thread(target=self._forward, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._forward, args=(server, client, False), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_asking: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 20):
                if is_asking and self.cut_at is not None and self.cut_at in data:
                    self.cut_at = None
                    self.cuts += 1
                    _close(source)  # first: nobody may hear the answer
                    if self.forwards:
                        target.sendall(data)
                        target.shutdown(socket.SHUT_WR)  # the server does what it was told, and finds nobody to tell
                        while target.recv(1 << 20):
                            pass
                    break
                target.sendall(data)
        _close(source)
        _close(target)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
