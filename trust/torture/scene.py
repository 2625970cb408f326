"""Where it happens: a database, `rowq serve` on it, the ways to both, and those who take part. Faults hit what is here."""

from __future__ import annotations

import http.client
import random
import secrets
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import cycle
from pathlib import Path

import rowq
from tests.support.astray import Offset
from tests.support.patience import eventually
from tests.support.servers.server import free_port
from tests.support.way import CuttableWay
from trust.torture.actor import Actor
from trust.torture.cast import PARTS, Cast, Parts
from trust.torture.database import Database, PostgresqlDatabase, ServedDatabase, SqliteFile, open_database
from trust.torture.queues import QUEUES, furnish, install_sql_apis

_SERVERS = 2
_UP = 120.0
"""Seconds until a server that was started must listen, with a database that may just be away."""


class RowqServer:
    """`rowq serve` behind a way, on the same port whenever it is started again."""

    def __init__(self, name: str, folder: Path, url: str, clock: Path) -> None:
        self.name = name
        self._folder = folder
        self._database = url
        self._port = free_port()
        self.clock = clock
        self._arguments = (str(clock), "rowq.cli.main", "serve", "--port", str(self._port), "--no-admin", "--no-access-log")
        self.way = CuttableWay(self._port)
        self.url = f"http://127.0.0.1:{self.way.port}"
        Offset(clock)
        self.actor = self._launched()

    def start(self) -> None:
        """Once more, after it has ended."""
        self.actor = self._launched()
        self.await_listening()

    def await_listening(self) -> None:
        """As whoever runs it would see to it: it ends at once where its database is away, and is started until it stays."""
        eventually(self._listens, _UP)

    def close(self) -> None:
        self.way.close()
        if not self.actor.has_ended:
            self.actor.end()

    def _listens(self) -> bool:
        if self.actor.has_ended:
            self.actor = self._launched()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=1)
        try:
            connection.request("GET", "/")
            return bool(connection.getresponse().status)  # whichever: who answers also hears when he is told to end
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _launched(self) -> Actor:
        return Actor(self.name, self._folder, "tests.support.astray", *self._arguments, ROWQ_URL=self._database)


class Scene:
    def __init__(self, database: Database, folder: Path, seed: int) -> None:
        self.database = database
        self.folder = folder
        self.is_over = threading.Event()
        """Set when nothing is to be waited for any more."""
        self._shared_clock = folder / "clock" if isinstance(database, SqliteFile) else None
        with rowq.connect(database.url, maintenance=False) as broker:
            furnish(broker)
        if isinstance(database, PostgresqlDatabase):
            install_sql_apis(database.url)
        self.servers: list[RowqServer] = []
        self._http: list[str] = []
        urls = {"library": database.played_urls, "sql": database.played_urls, "http": self._http}
        self.cast = Cast(folder, urls, seed, self._shared_clock)
        self.furthest_ms = 0
        """How far ahead a clock has been that all share: what was put off then is due when it gets there."""

    def begin(self, parts: Parts) -> None:
        """One after another, each known as soon as it runs: whoever ends the run in the middle of this leaves nobody behind."""
        for number, url in zip(range(1, _SERVERS + 1), cycle(self.database.played_urls), strict=False):
            name = f"server-{number}"
            self.servers.append(RowqServer(name, self.folder, url, self._shared_clock or self.folder / f"{name}.clock"))
        for server in self.servers:
            server.await_listening()
            self._http.append(server.url)
        self.cast.enter(parts)

    def close(self) -> None:
        self.cast.kill()
        for server in self.servers:
            server.close()

    @property
    def kind(self) -> str:
        return self.database.kind

    @property
    def served(self) -> ServedDatabase:
        assert isinstance(self.database, ServedDatabase)
        return self.database

    @property
    def file(self) -> SqliteFile:
        assert isinstance(self.database, SqliteFile)
        return self.database

    def hold(self, seconds: float) -> None:
        """While a fault lasts."""
        self.is_over.wait(seconds)

    def clocks(self, choose: random.Random) -> list[Offset]:
        """That of the machine where there is one for all; else that of somebody."""
        if self._shared_clock is not None:
            return [Offset(self._shared_clock)]
        clocks = [member.clock for member in self.cast.members] + [server.clock for server in self.servers]
        return [Offset(choose.choice(clocks))]

    def heal(self) -> None:
        """What faults leave behind: pauses of operators, and times that a clock has already been ahead of."""
        if self._shared_clock is not None:
            Offset(self._shared_clock).ms = self.furthest_ms
        with rowq.connect(self.database.url, maintenance=False) as broker:
            furnish(broker)

    def depths(self) -> dict[str, int]:
        """How much is neither finished nor dead, by queue."""
        with rowq.connect(self.database.url, maintenance=False) as broker:
            return {queue: depth for queue in QUEUES if (depth := broker.stats(queue).depth)}

    def complaints(self) -> list[str]:
        """Of anybody: an error that nobody has foreseen."""
        said = {path.stem: path.read_text(encoding="utf-8", errors="replace") for path in sorted(self.folder.glob("*.err"))}
        return [f"{name} complained: {text[-3000:]}" for name, text in said.items() if "Traceback" in text]

    def close_servers(self) -> list[str]:
        """In good order; what is to be said against how they ended."""
        return [
            f"{server.name} ended with {code}: {server.actor.complaint[-2000:]}" for server in self.servers if (code := server.actor.end())
        ]


@contextmanager
def opened(kind: str, folder: Path, seed: int, parts: Parts = PARTS) -> Iterator[Scene]:
    """Nobody is left running after it, and nothing but the folder."""
    with closing(open_database(kind)) as database, closing(Scene(database, folder, seed)) as scene:
        scene.begin(parts)
        yield scene


def new_folder(place: Path, kind: str, seed: int) -> Path:
    folder = place / f"{kind}-{seed}-{secrets.token_hex(2)}"
    folder.mkdir(parents=True)
    return folder
