"""Redis from the system's packages, on a port of its own; it keeps nothing unless it is told to."""

from __future__ import annotations

import signal
import socket
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tests.support.servers.server import OwnServer, Server, Setting, program


class RedisDatabases(Server):
    """Databases that are numbers, and always there: `url("0")`."""

    name = "Redis"

    @abstractmethod
    def url(self, database: str = "0") -> str: ...

    def create_database(self, name: str) -> None:
        raise NotImplementedError("Redis has no databases to create: use a namespace of your own")

    def drop_database(self, name: str) -> None:
        raise NotImplementedError("Redis has no databases to drop")


class RedisServer(RedisDatabases, OwnServer):
    stop_signal = signal.SIGTERM
    tuned: ClassVar[Mapping[str, Setting]] = {"save": "", "appendonly": False}

    @classmethod
    def check(cls) -> None:
        program("redis-server", "redis-server")

    def url(self, database: str = "0") -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"

    def _install(self) -> None:
        """Nothing: an empty folder will do."""

    def _command(self) -> list[str]:
        where: dict[str, Setting] = {"port": self.port, "bind": "127.0.0.1", "unixsocket": str(self._socket), "dir": str(self.data)}
        said = {**self.settings, **where, "daemonize": False}
        return [
            program("redis-server", "redis-server"),
            *(word for name, value in said.items() for word in (f"--{name.replace('_', '-')}", _in_text(value))),
        ]

    def _answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(self._socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(7) == b"+PONG\r\n"
        except OSError:
            return False

    @property
    def _socket(self) -> Path:
        return self.place / "socket"


def own_redis(folder: Path | None = None, **settings: Setting) -> RedisServer:
    """A private one: `with own_redis() as server`."""
    return RedisServer.begin(folder, settings)


def _in_text(value: Setting) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
